{{/* memproxy.injectConfig is the file of memproxy inject. */}}
{{- define "memproxy.injectConfig" -}}
listen: ":{{ int .Values.injector.port }}"
admin: ":{{ int .Values.injector.adminPort }}"
tls: {cert: /etc/memproxy/tls/tls.crt, key: /etc/memproxy/tls/tls.key}
pods: {{ .Values.injector.pods }}
pod_names: {{ .Values.injector.podNames }}
template:
  sidecar: {{- include "memproxy.sidecar" . | nindent 4 }}
  {{- $c := include "memproxy.config" . | fromYaml }}
  ports: [{{ regexFind "[0-9]+$" $c.admin.listen }}{{ range $c.backends }}, {{ regexFind "[0-9]+$" .listen }}{{ end }}]
  volumes: {{- include "memproxy.volumes" . | nindent 4 }}
  env: {{- include "memproxy.env" . | trim | nindent 4 }}
  mounts: {{- include "memproxy.volumeMounts" . | trim | nindent 4 }}
  labels: {{- include "memproxy.podLabels" . | nindent 4 }}
  annotations: {{- include "memproxy.podAnnotations" . | nindent 4 }}
{{- end }}

{{- define "memproxy.certificateSecret" -}}
{{- if eq .Values.certificates.mode "existing" }}{{ .Values.certificates.existingSecret }}{{ else }}{{ include "memproxy.name" . }}-injector-tls{{ end }}
{{- end }}

{{/* The API server's way to a webhook: call with a list of the context and the path. */}}
{{- define "memproxy.clientConfig" -}}
{{- $ := index . 0 -}}
{{- if $.Values.injector.url }}
url: {{ printf "%s/%s" (trimSuffix "/" $.Values.injector.url) (index . 1) | quote }}
{{- else }}
service:
  name: {{ include "memproxy.name" $ }}-injector
  namespace: {{ $.Release.Namespace }}
  port: 443
  path: /{{ index . 1 }}
{{- end }}
{{- if eq $.Values.certificates.mode "existing" }}
caBundle: {{ $.Values.certificates.caBundle | b64enc }}
{{- end }}
{{- end }}

{{/* The namespaces that are asked about. */}}
{{- define "memproxy.namespaceSelector" -}}
matchExpressions:
  - {key: {{ .Values.injector.namespaceLabel.key }}, operator: In, values: [{{ .Values.injector.namespaceLabel.value | quote }}]}
  # The webhook's own pods, and the cluster's, must start without it.
  - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, {{ .Release.Namespace | quote }}]}
{{- end }}
