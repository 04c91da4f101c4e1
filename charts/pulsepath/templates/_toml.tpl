{{/*
A table as TOML, one dotted key a line; takes (dict "prefix" "" "settings" $table). Values that are
empty text are left out, so that the daemon's own default holds.
*/}}
{{- define "pulsepath.toml" -}}
{{- $prefix := .prefix -}}
{{- range $key, $value := .settings -}}
{{- $path := printf "%s%s" $prefix $key -}}
{{- if kindIs "map" $value -}}
{{- include "pulsepath.toml" (dict "prefix" (printf "%s." $path) "settings" $value) -}}
{{- else if not (or (kindIs "invalid" $value) (and (kindIs "string" $value) (empty $value))) -}}
{{ $path }} = {{ include "pulsepath.tomlValue" $value }}
{{ end -}}
{{- end -}}
{{- end }}

{{/* One value as TOML. Helm reads whole numbers as floating point ones. */}}
{{- define "pulsepath.tomlValue" -}}
{{- if kindIs "map" . -}}
{ {{- range $index, $key := keys . | sortAlpha }}{{ if $index }}, {{ end }}{{ toJson $key }} = {{ include "pulsepath.tomlValue" (get $ $key) }}{{ end -}} }
{{- else if kindIs "slice" . -}}
[{{- range $index, $item := . }}{{ if $index }}, {{ end }}{{ include "pulsepath.tomlValue" $item }}{{ end -}}]
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{ int64 . }}
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end }}
