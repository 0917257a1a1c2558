{{/*
memproxy.config is the sidecar's memproxy.yaml: what the chart knows, and over
it what .Values.config says.
*/}}
{{- define "memproxy.config" -}}
{{- $c := dict "profile" "production" "state" "/var/lib/memproxy" -}}
{{- $_ := set $c "admin" (dict "listen" (printf "127.0.0.1:%v" (int .Values.sidecar.reviewPort)) "probes" (printf ":%v" (int .Values.sidecar.adminPort))) -}}
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
    {{- $o := dict "issuer" .issuer "audience" .audience "prefix" "" -}}
    {{- if .inCluster }}{{ $_ := set $o "ca" "/etc/memproxy/cluster/ca.crt" }}{{ end -}}
    {{- with .rules }}{{ $_ := set $o "rules" . }}{{ end -}}
    {{- $_ := set $identity "oidc" $o -}}
  {{- end -}}
{{- end -}}
{{- if $identity }}{{ $_ := set $c "identity" $identity }}{{ end -}}
{{- $policy := dict -}}
{{- if .Values.policies }}{{ $_ := set $policy "dir" "/etc/memproxy/policies" }}{{ end -}}
{{- with .Values.fleet -}}
  {{- if .enabled -}}
    {{- $address := .address | default (printf "%s-control.%s.svc:%v" (include "memproxy.name" $) $.Release.Namespace (int $.Values.control.port)) -}}
    {{- $f := dict "address" $address "fleet" .name "keys" .keys "node" "${POD_NAMESPACE}/${POD_NAME}" -}}
    {{- $_ := set $f "tls" (dict "cert" "/etc/memproxy/fleet/tls.crt" "key" "/etc/memproxy/fleet/tls.key" "ca" "/etc/memproxy/fleet/ca.crt") -}}
    {{- with .tenant }}{{ $_ := set $f "tenant" . }}{{ end -}}
    {{- with .labels }}{{ $_ := set $f "labels" . }}{{ end -}}
    {{- $_ := set $policy "control" $f -}}
  {{- end -}}
{{- end -}}
{{- if $policy }}{{ $_ := set $c "policy" $policy }}{{ end -}}
{{- if .Values.redis.existingSecret }}{{ $_ := set $c "budgets" (dict "redis" (dict "url" "${REDIS_URL}")) }}{{ end -}}
{{- if .Values.postgres.existingSecret }}{{ $_ := set $c "ledger" (dict "url" "${DATABASE_URL}") }}{{ end -}}
{{- with .Values.telemetry.otlp }}{{ $_ := set $c "telemetry" (dict "otlp" .) }}{{ end -}}
{{- $_ := set $c "audit" (dict "max_bytes" (div (include "memproxy.stateBytes" . | int64) 2)) -}}
{{- toYaml (mergeOverwrite $c (deepCopy .Values.config)) -}}
{{- end }}

{{/* memproxy.stateSize is the room that a sidecar's state has, memproxy.stateBytes the same in bytes. */}}
{{- define "memproxy.stateSize" -}}
{{- with .Values.sidecar.state }}{{ if .ephemeralVolume }}{{ .ephemeralVolume.size }}{{ else }}{{ .sizeLimit }}{{ end }}{{ end -}}
{{- end }}
{{- define "memproxy.stateBytes" -}}
{{- $size := include "memproxy.stateSize" . -}}
{{- $suffix := regexFind "[A-Za-z]*$" $size -}}
{{- $bytes := float64 (trimSuffix $suffix $size) -}}
{{- $power := index (dict "" 0 "k" 1 "K" 1 "M" 2 "G" 3 "T" 4 "P" 5 "E" 6) (trimSuffix "i" $suffix) -}}
{{- $unit := ternary 1024 1000 (hasSuffix "i" $suffix) -}}
{{- range until (int $power) }}{{ $bytes = mulf $bytes $unit }}{{ end -}}
{{- int64 $bytes -}}
{{- end }}

{{/* memproxy.controlConfig is the file of memproxy control. */}}
{{- define "memproxy.controlConfig" -}}
{{- $c := dict "fleet" .Values.fleet.name "keys" .Values.fleet.keys "listen" (printf ":%v" (int .Values.control.port)) -}}
{{- $_ := set $c "admin" (dict "listen" (printf ":%v" (int .Values.control.adminPort))) -}}
{{- $_ := set $c "tls" (dict "cert" "/etc/memproxy/tls/tls.crt" "key" "/etc/memproxy/tls/tls.key" "client_ca" "/etc/memproxy/tls/ca.crt") -}}
{{- $_ := set $c "releases" "/var/lib/memproxy/releases" -}}
{{- $_ := set $c "progress" "/var/lib/memproxy/progress" -}}
{{- $_ := set $c "sidecars" .Values.control.sidecars -}}
{{- $_ := set $c "log" (dict "format" "json") -}}
{{- toYaml (mergeOverwrite $c (deepCopy .Values.control.config)) -}}
{{- end }}
