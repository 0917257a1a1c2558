{{/*
memproxy.config is the sidecar's memproxy.yaml: what the chart knows, and over
it what .Values.config says.
*/}}
{{- define "memproxy.config" -}}
{{- $c := dict "profile" "production" "state" "/var/lib/memproxy" -}}
{{- $_ := set $c "admin" (dict "listen" (printf ":%v" (int .Values.sidecar.adminPort))) -}}
{{- $backends := list -}}
{{- range .Values.backends -}}
  {{- $b := dict "name" .name "kind" .kind "listen" (printf "127.0.0.1:%v" (int .port)) "upstream" .upstream -}}
  {{- with .credential -}}
    {{- $_ := set $b "credential" (printf "file:/etc/memproxy/credentials/%s" $b.name) -}}
    {{- with .as }}{{ $_ := set $b "credential_as" . }}{{ end -}}
  {{- end -}}
  {{- $backends = append $backends (mergeOverwrite $b (deepCopy (.extra | default dict))) -}}
{{- end -}}
{{- $_ := set $c "backends" $backends -}}
{{- $identity := dict -}}
{{- with .Values.identity.pod -}}
  {{- if .enabled -}}
    {{- $p := dict "id" "system:serviceaccount:${POD_NAMESPACE}:${POD_SERVICE_ACCOUNT}" "kind" "agent" "trust" .trust -}}
    {{- with .tenant }}{{ $_ := set $p "tenant" . }}{{ end -}}
    {{- $_ := set $p "acts_as" .actsAs -}}
    {{- with .roles }}{{ $_ := set $p "roles" . }}{{ end -}}
    {{- $_ := set $identity "default" $p -}}
  {{- end -}}
{{- end -}}
{{- with .Values.identity.token -}}
  {{- if .enabled -}}
    {{- $_ := set $identity "oidc" (dict "issuer" .issuer "audience" .audience "prefix" "") -}}
  {{- end -}}
{{- end -}}
{{- if $identity }}{{ $_ := set $c "identity" $identity }}{{ end -}}
{{- if .Values.policies }}{{ $_ := set $c "policy" (dict "dir" "/etc/memproxy/policies") }}{{ end -}}
{{- if .Values.redis.existingSecret }}{{ $_ := set $c "budgets" (dict "redis" (dict "url" "${REDIS_URL}")) }}{{ end -}}
{{- with .Values.telemetry.otlp }}{{ $_ := set $c "telemetry" (dict "otlp" .) }}{{ end -}}
{{- toYaml (mergeOverwrite $c (deepCopy .Values.config)) -}}
{{- end }}
