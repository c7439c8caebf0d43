{{/* The name of all objects. */}}
{{- define "streamlet.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "streamlet.selector" -}}
app.kubernetes.io/name: streamlet
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "streamlet.labels" -}}
{{ include "streamlet.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The image; a tag that begins with @ is a digest. */}}
{{- define "streamlet.image" -}}
{{- if hasPrefix "@" .Values.image.tag -}}
{{ .Values.image.repository }}{{ .Values.image.tag }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end }}

{{/* Worker processes answer queries at a port each, from the first on. */}}
{{- define "streamlet.lastQueriesPort" -}}
{{- $last := add .Values.queries.port .Values.processes -1 -}}
{{- if gt $last 65535 -}}
{{- fail "queries.port: with so many processes the last of them would have a port above 65535" -}}
{{- end -}}
{{- if and (ge $last (int64 .Values.metrics.port)) (le (int64 .Values.queries.port) (int64 .Values.metrics.port)) -}}
{{- fail (printf "queries.port: processes answer queries at the ports from it to %d, and metrics.port is one of them" $last) -}}
{{- end -}}
{{- $last -}}
{{- end }}
