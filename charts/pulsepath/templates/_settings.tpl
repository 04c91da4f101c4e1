{{/* The agent's file: the user's settings, and what follows from the other values. */}}
{{- define "pulsepath.agentSettings" -}}
{{- $agent := .Values.agent -}}
{{- $own := dict
  "pin_dir" "/sys/fs/bpf/pulsepath"
  "key_file" "/var/lib/pulsepath/node.key"
  "reflector" (dict "port" .Values.probePort)
  "http" (dict "listen" (printf "%s:%v" $agent.listenAddress $agent.httpPort))
  "egress" (dict "state_file" "/var/lib/pulsepath/agent.json")
  "control" (merge (dict
      "listen" (printf "%s:%v" $agent.listenAddress .Values.controlPort)
      "controller_name" (include "pulsepath.controllerName" .)
    ) (include "pulsepath.tlsFiles" . | fromYaml))
-}}
{{- include "pulsepath.toml" (dict "prefix" "" "settings" (mergeOverwrite (deepCopy $agent.settings) $own)) -}}
{{- end }}

{{/* The controller's file, likewise. */}}
{{- define "pulsepath.controllerSettings" -}}
{{- $controller := .Values.controller -}}
{{- $own := dict
  "cluster_key_file" "/run/pulsepath/key/cluster.key"
  "port" .Values.probePort
  "http" (dict "listen" (printf "%s:%v" $controller.listenAddress $controller.httpPort))
  "grpc" (dict "listen" (printf "%s:%v" $controller.listenAddress $controller.grpcPort))
  "kubernetes" (dict "enabled" true)
  "control" (merge (dict
      "port" .Values.controlPort
      "agent_name" (include "pulsepath.agentName" .)
    ) (include "pulsepath.tlsFiles" . | fromYaml))
-}}
{{- include "pulsepath.toml" (dict "prefix" "" "settings" (mergeOverwrite (deepCopy $controller.settings) $own)) -}}
{{- end }}

{{- define "pulsepath.tlsFiles" -}}
ca_file: /run/pulsepath/tls/ca.crt
cert_file: /run/pulsepath/tls/tls.crt
key_file: /run/pulsepath/tls/tls.key
{{- end }}
