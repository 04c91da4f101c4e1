{{/* What every container of the agent's Pods has. */}}
{{- define "pulsepath.agentContainer" -}}
image: {{ include "pulsepath.image" (list . "agent") }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- include "pulsepath.agentSecurity" . | nindent 2 }}
resources:
  {{- toYaml .Values.agent.resources | nindent 2 }}
volumeMounts:
  - name: config
    mountPath: /etc/pulsepath
    readOnly: true
  - name: tls
    mountPath: /run/pulsepath/tls
    readOnly: true
  - name: bpf
    mountPath: /sys/fs/bpf
    mountPropagation: HostToContainer
  - name: state
    mountPath: /var/lib/pulsepath
{{- end }}

{{/*
Privileged, or no more than what an agent does: BPF and PERFMON load programs, NET_ADMIN attaches them
and configures addresses, rules and sysctls, NET_RAW announces addresses, SYS_ADMIN finds programs of
others by their ids, SYS_RESOURCE locks memory for maps before Linux 5.11.
*/}}
{{- define "pulsepath.agentSecurity" -}}
runAsUser: 0
readOnlyRootFilesystem: true
{{- if eq .Values.agent.securityContext.mode "privileged" }}
privileged: true
{{- else }}
privileged: false
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
  add: [BPF, NET_ADMIN, NET_RAW, PERFMON, SYS_ADMIN, SYS_RESOURCE]
# The profile of container runtimes denies writing to BPF file systems.
appArmorProfile:
  type: Unconfined
seccompProfile:
  type: RuntimeDefault
{{- end }}
{{- end }}
