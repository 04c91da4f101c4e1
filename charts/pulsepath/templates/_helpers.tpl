{{- define "pulsepath.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "pulsepath.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "pulsepath.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "pulsepath.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Labels of everything. */}}
{{- define "pulsepath.labels" -}}
app.kubernetes.io/name: {{ include "pulsepath.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels by which a component's Pods are selected; takes (list $ "agent"). */}}
{{- define "pulsepath.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "pulsepath.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Labels of a component's Pods; takes (list $ "agent"). */}}
{{- define "pulsepath.podLabels" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{ include "pulsepath.selector" . }}
{{- with (index $root.Values $component).podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A component's image; takes (list $ "agent"). */}}
{{- define "pulsepath.image" -}}
{{- $root := index . 0 -}}
{{- $image := (index $root.Values (index . 1)).image -}}
{{- $name := $image.repository -}}
{{- with $root.Values.image.registry }}{{ $name = printf "%s/%s" (trimSuffix "/" .) $name }}{{ end -}}
{{- if $image.digest -}}
{{ $name }}@{{ $image.digest }}
{{- else -}}
{{ $name }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The names for which the certificates of agents and of controllers speak. */}}
{{- define "pulsepath.agentName" -}}pulsepath-agent{{- end }}
{{- define "pulsepath.controllerName" -}}pulsepath-controller{{- end }}

{{/* The Secret with the cluster key. */}}
{{- define "pulsepath.clusterKeySecret" -}}
{{- .Values.clusterKey.existingSecret | default (printf "%s-cluster-key" (include "pulsepath.fullname" .)) }}
{{- end }}

{{/* The Secret with a component's certificate; takes (list $ "agent"). */}}
{{- define "pulsepath.tlsSecret" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- if eq $root.Values.tls.source "secret" -}}
{{- required (printf "tls.existingSecrets.%s is needed where tls.source is \"secret\"" $component) (index $root.Values.tls.existingSecrets $component) -}}
{{- else -}}
{{- printf "%s-%s-tls" (include "pulsepath.fullname" $root) $component -}}
{{- end -}}
{{- end }}

{{/* What both kinds of Pods have; takes (list $ "agent"). */}}
{{- define "pulsepath.scheduling" -}}
{{- $root := index . 0 -}}
{{- $values := index $root.Values (index . 1) -}}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
enableServiceLinks: false
{{- end }}

{{/* Probes of a daemon that serves /live and /ready on its port `http`. */}}
{{- define "pulsepath.probes" -}}
startupProbe:
  httpGet:
    path: /live
    port: http
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet:
    path: /live
    port: http
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet:
    path: /ready
    port: http
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end }}
