{{/*
What a pod gets. The webhook puts it in; charts that refuse webhooks include it,
with this chart as a dependency and injector.enabled false:

  metadata:
    labels:      {{- include "memproxy.podLabels" .Subcharts.memproxy | nindent 6 }}
    annotations: {{- include "memproxy.podAnnotations" .Subcharts.memproxy | nindent 6 }}
  spec:
    initContainers: {{- include "memproxy.initContainers" .Subcharts.memproxy | nindent 6 }}
    containers:
      - name: agent
        env:          {{- include "memproxy.env" .Subcharts.memproxy | nindent 10 }}
        volumeMounts: {{- include "memproxy.volumeMounts" .Subcharts.memproxy | nindent 10 }}
    volumes: {{- include "memproxy.volumes" .Subcharts.memproxy | nindent 6 }}
*/}}

{{- define "memproxy.podLabels" -}}
memproxy.io/injected: "true"
{{- end }}

{{- define "memproxy.podAnnotations" -}}
memproxy.io/config: {{ include "memproxy.config" . | sha256sum | trunc 16 | quote }}
{{- end }}

{{- define "memproxy.initContainers" -}}
- {{ include "memproxy.sidecar" . | nindent 2 | trim }}
{{- end }}

{{- define "memproxy.sidecar" -}}
name: memproxy
image: {{ include "memproxy.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
restartPolicy: Always
args: [serve, --config, /etc/memproxy/config/memproxy.yaml]
env:
  - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
  - {name: POD_SERVICE_ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
  - {name: OTEL_RESOURCE_ATTRIBUTES, value: "k8s.pod.name=$(POD_NAME),k8s.namespace.name=$(POD_NAMESPACE)"}
  {{- with .Values.redis }}{{- if .existingSecret }}
  - {name: REDIS_URL, valueFrom: {secretKeyRef: {name: {{ .existingSecret | quote }}, key: {{ .key | quote }}}}}
  {{- end }}{{- end }}
  {{- with .Values.postgres }}{{- if .existingSecret }}
  - {name: DATABASE_URL, valueFrom: {secretKeyRef: {name: {{ .existingSecret | quote }}, key: {{ .key | quote }}}}}
  {{- end }}{{- end }}
  {{- with .Values.sidecar.env }}{{ toYaml . | nindent 2 }}{{ end }}
ports:
  - {name: memproxy-admin, containerPort: {{ .Values.sidecar.adminPort }}, protocol: TCP}
startupProbe:
  httpGet: {path: /readyz, port: {{ .Values.sidecar.adminPort }}, scheme: HTTP}
  periodSeconds: 1
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: {{ .Values.sidecar.adminPort }}, scheme: HTTP}
  periodSeconds: 5
  timeoutSeconds: 2
livenessProbe:
  httpGet: {path: /healthz, port: {{ .Values.sidecar.adminPort }}, scheme: HTTP}
  periodSeconds: 10
  timeoutSeconds: 5
resources: {{- toYaml .Values.sidecar.resources | nindent 2 }}
securityContext: {{- include "memproxy.securityContext" . | nindent 2 }}
volumeMounts:
  - {name: memproxy-config, mountPath: /etc/memproxy/config, readOnly: true}
  - {name: memproxy-state, mountPath: /var/lib/memproxy}
  - {name: memproxy-keys, mountPath: /var/lib/memproxy/keys}
  {{- if .Values.keys.existingSecret }}{{- range .Values.keys.files }}
  - {name: memproxy-installation-keys, mountPath: {{ printf "/var/lib/memproxy/keys/%s" . }}, subPath: {{ . | quote }}, readOnly: true}
  {{- end }}{{- end }}
  {{- if .Values.policies }}
  - {name: memproxy-policies, mountPath: /etc/memproxy/policies, readOnly: true}
  {{- end }}
  {{- if .Values.fleet.enabled }}
  - {name: memproxy-fleet, mountPath: /etc/memproxy/fleet, readOnly: true}
  {{- end }}
  {{- if include "memproxy.credentials" . }}
  - {name: memproxy-credentials, mountPath: /etc/memproxy/credentials, readOnly: true}
  {{- end }}
  {{- if and .Values.identity.token.enabled .Values.identity.token.inCluster }}
  - {name: memproxy-cluster, mountPath: /etc/memproxy/cluster, readOnly: true}
  {{- end }}
{{- end }}

{{/* The sources of the credentials' volume, or nothing. */}}
{{- define "memproxy.credentials" -}}
{{- range $b := .Values.backends }}{{ with $b.credential }}
- secret:
    name: {{ .secretName | quote }}
    items: [{key: {{ .key | quote }}, path: {{ $b.name | quote }}}]
{{- end }}{{ end }}
{{- end }}

{{- define "memproxy.volumes" -}}
- name: memproxy-config
  configMap: {name: {{ include "memproxy.name" . }}-sidecar}
- name: memproxy-state
  {{- with .Values.sidecar.state }}
  {{- if .ephemeralVolume }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .ephemeralVolume.storageClassName }}
        storageClassName: {{ . | quote }}
        {{- end }}
        resources: {requests: {storage: {{ .ephemeralVolume.size | quote }}}}
  {{- else }}
  emptyDir: {sizeLimit: {{ .sizeLimit | quote }}}
  {{- end }}
  {{- end }}
- name: memproxy-keys
  emptyDir: {sizeLimit: 1Mi}
{{- if .Values.keys.existingSecret }}
- name: memproxy-installation-keys
  secret: {secretName: {{ .Values.keys.existingSecret | quote }}, defaultMode: 288}
{{- end }}
{{- if .Values.policies }}
- name: memproxy-policies
  configMap: {name: {{ include "memproxy.name" . }}-policies}
{{- end }}
{{- if .Values.fleet.enabled }}
- name: memproxy-fleet
  secret: {secretName: {{ .Values.fleet.clientSecret | quote }}, defaultMode: 288}
{{- end }}
{{- with include "memproxy.credentials" . | trim }}
- name: memproxy-credentials
  projected:
    defaultMode: 288 # 0440, in a form that every parser reads alike
    sources: {{- . | nindent 6 }}
{{- end }}
{{- if .Values.identity.token.enabled }}
- name: memproxy-token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          audience: {{ .Values.identity.token.audience | quote }}
          expirationSeconds: {{ .Values.identity.token.expirationSeconds }}
{{- if .Values.identity.token.inCluster }}
- name: memproxy-cluster
  configMap: {name: kube-root-ca.crt}
{{- end }}
{{- end }}
{{- end }}

{{/* The agents' side. */}}
{{- define "memproxy.env" -}}
{{- range $b := .Values.backends }}
{{- $names := $b.env }}
{{- if not (hasKey $b "env") }}{{ $names = get (dict "mem0" (list "MEM0_BASE_URL" "MEM0_HOST") "letta" (list "LETTA_BASE_URL" "LETTA_SERVER_URL")) $b.kind }}{{ end }}
{{- range $names }}
- {name: {{ . }}, value: "http://127.0.0.1:{{ int $b.port }}"}
{{- end }}
{{- end }}
{{- if .Values.identity.token.enabled }}
- {name: MEMPROXY_TOKEN_FILE, value: /var/run/secrets/memproxy/token}
{{- end }}
{{- end }}

{{- define "memproxy.volumeMounts" -}}
{{- if .Values.identity.token.enabled }}
- {name: memproxy-token, mountPath: /var/run/secrets/memproxy, readOnly: true}
{{- else }}[]{{- end }}
{{- end }}
