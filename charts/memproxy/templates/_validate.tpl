{{- /* What the schema cannot say. It renders nothing. */}}
{{- define "memproxy.validate" }}
{{- $v := .Values }}
{{- if and $v.injector.enabled (not $v.backends) }}{{ fail "backends is empty: the sidecar would have no backend" }}{{ end }}
{{- if and $v.injector.enabled (not $v.namespaces) }}{{ fail "namespaces is empty: the sidecar's configuration would be installed in no namespace" }}{{ end }}
{{- range $ns := list "kube-system" .Release.Namespace }}
{{- if and $v.injector.enabled (has $ns $v.namespaces) }}{{ fail (printf "namespaces: %s must not be listed: its pods never get the sidecar, because the webhook and the cluster must start without it" $ns) }}{{ end }}
{{- end }}
{{- if and $v.injector.enabled (eq $v.injector.port $v.injector.adminPort) }}{{ fail "injector.port and injector.adminPort must differ" }}{{ end }}
{{- if and $v.control.enabled (eq $v.control.port $v.control.adminPort) }}{{ fail "control.port and control.adminPort must differ" }}{{ end }}
{{- if and $v.injector.enabled (eq $v.certificates.mode "existing") }}
{{- if not (and $v.certificates.existingSecret $v.certificates.caBundle) }}{{ fail "certificates.mode existing requires existingSecret and caBundle" }}{{ end }}
{{- end }}
{{- if and (eq (toString (dig "enforce" true $v.config)) "false") (not (contains "MEMPROXY_ALLOW_UNSAFE" (toJson $v.sidecar.env))) }}{{ fail "config.enforce is false: the sidecar refuses to start unless sidecar.env has {name: MEMPROXY_ALLOW_UNSAFE, value: enforce}" }}{{ end }}
{{- $bytes := include "memproxy.stateBytes" . | int64 }}
{{- $state := printf "sidecar.state.%s is %s" (ternary "ephemeralVolume.size" "sizeLimit" (not (empty $v.sidecar.state.ephemeralVolume))) (include "memproxy.stateSize" .) }}
{{- if lt $bytes 2097152 }}{{ fail (printf "%s: the audit log alone needs 1 MiB, and gets half: set at least 2Mi" $state) }}{{ end }}
{{- with dig "audit" "max_bytes" 0 $v.config }}
{{- if gt (float64 .) (mulf $bytes 0.75) }}{{ fail (printf "config.audit.max_bytes is %d and %s: the log may take at most three quarters, because the ledger is there too and the pod is evicted when it is full" (int64 .) $state) }}{{ end }}
{{- end }}
{{- if hasKey (dig "admin" dict $v.config) "probes" }}{{ fail "config.admin.probes must not be set, because the kubelet's probes and Prometheus would not find the listener: set sidecar.adminPort" }}{{ end }}
{{- if hasKey $v.config "state" }}{{ fail "config.state must not be set, because the sidecar can write to its own volume only: set sidecar.state" }}{{ end }}
{{- if hasKey $v.config "backends" }}{{ fail "config.backends must not be set, because the addresses in the pods' variables would be wrong: set backends, with further keys in backends[].extra" }}{{ end }}
{{- if hasKey $v.control.config "listen" }}{{ fail "control.config.listen must not be set, because the Service would not find the listener: set control.port" }}{{ end }}
{{- if hasKey (dig "admin" dict $v.control.config) "listen" }}{{ fail "control.config.admin.listen must not be set, because the Service and the kubelet's probes would not find the listener: set control.adminPort" }}{{ end }}
{{- if and $v.postgres.existingSecret (not (and $v.keys.existingSecret (has "vault.key" $v.keys.files))) }}{{ fail "postgres requires keys.existingSecret with vault.key among keys.files: sidecars treat rows that another key signed as edited" }}{{ end }}
{{- if and $v.identity.token.enabled (not $v.identity.token.issuer) }}{{ fail "identity.token requires the cluster's issuer" }}{{ end }}
{{- if and (or $v.fleet.enabled $v.control.enabled) (not (and $v.fleet.name $v.fleet.keys)) }}{{ fail "fleet requires name and keys, because releases are signed for a named fleet" }}{{ end }}
{{- if and $v.fleet.enabled (not $v.fleet.clientSecret) }}{{ fail "fleet.clientSecret is empty: sidecars have no certificate for the control plane" }}{{ end }}
{{- if and $v.fleet.enabled (not $v.fleet.address) (not $v.control.enabled) }}{{ fail "fleet.address is empty, and control.enabled is false" }}{{ end }}
{{- if and $v.control.enabled (not (and $v.control.tlsSecret $v.control.releasesClaim $v.control.sidecars)) }}{{ fail "control requires tlsSecret, releasesClaim and sidecars" }}{{ end }}
{{- if and $v.backends (not $v.identity.pod.enabled) (not $v.identity.token.enabled) (not (hasKey $v.config "identity")) }}{{ fail "identity.pod and identity.token are off, and config.identity is empty: the sidecar could not identify any caller" }}{{ end }}
{{- $names := dict "admin" true "probes" true }}
{{- $ports := dict (toString (int $v.sidecar.adminPort)) "sidecar.adminPort" }}
{{- if hasKey $ports (toString (int $v.sidecar.reviewPort)) }}{{ fail "sidecar.reviewPort must differ from sidecar.adminPort" }}{{ end }}
{{- $_ := set $ports (toString (int $v.sidecar.reviewPort)) "sidecar.reviewPort" }}
{{- range $v.backends }}
{{- $b := . }}
{{- range $key, $value := dict "name" "name" "kind" "kind" "listen" "port" "upstream" "upstream" "credential" "credential" "credential_as" "credential.as" }}
{{- if hasKey ($b.extra | default dict) $key }}{{ fail (printf "backend %s: extra.%s must not be set, because the chart sets it and checks it: set %s" $b.name $key $value) }}{{ end }}
{{- end }}
{{- if hasKey $names .name }}{{ fail (printf "backend %s: the name is already used" .name) }}{{ end }}
{{- $_ := set $names .name true }}
{{- $port := toString (int .port) }}
{{- if hasKey $ports $port }}{{ fail (printf "backend %s: port %s is already used by %s" .name $port (get $ports $port)) }}{{ end }}
{{- $_ := set $ports $port .name }}
{{- if and .credential (regexMatch "^http://[^.:/\\[]*([.]+[^.:/]+)?[.]*(:|/|$)" .upstream) }}{{ fail (printf "backend %s: a pod could resolve the host of %s to itself and receive the credential: write NAME.NAMESPACE.svc, or use HTTPS" .name .upstream) }}{{ end }}
{{- if and .pods (not .credential) $v.networkPolicy.enabled }}
{{- if not (dig "allowWithoutCredential" false .pods) }}{{ fail (printf "backend %s: without a credential, agents can bypass the sidecar in spite of the NetworkPolicy, because they share its pod. Set credential, or pods.allowWithoutCredential" .name) }}{{ end }}
{{- end }}
{{- end }}
{{- $variables := dict }}
{{- range include "memproxy.env" . | fromYamlArray }}
{{- if hasKey $variables .name }}{{ fail (printf "%s would be set for two backends: name the variables of each in backends[].env" .name) }}{{ end }}
{{- $_ := set $variables .name true }}
{{- end }}
{{- end }}
