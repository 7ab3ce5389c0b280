{{- define "vostok.name" -}}
{{- printf "%s-vostok" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- define "vostok.labels" -}}
app.kubernetes.io/name: vostok
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
