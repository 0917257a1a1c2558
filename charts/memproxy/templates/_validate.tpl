{{- /* What the schema cannot say. It renders nothing. */}}
{{- define "memproxy.validate" }}
{{- $v := .Values }}
{{- if and $v.injector.enabled (not $v.backends) }}{{ fail "backends is empty: the sidecar would gate nothing" }}{{ end }}
{{- if and $v.injector.enabled (not $v.namespaces) }}{{ fail "namespaces is empty: no pod could find the sidecar's configuration" }}{{ end }}
{{- range $ns := list "kube-system" .Release.Namespace }}
{{- if and $v.injector.enabled (has $ns $v.namespaces) }}{{ fail (printf "namespaces: pods of %s never get the sidecar, as the webhook and the cluster start without it" $ns) }}{{ end }}
{{- end }}
{{- if and $v.injector.enabled (eq $v.injector.port $v.injector.adminPort) }}{{ fail "injector.port is injector.adminPort's already" }}{{ end }}
{{- if and $v.control.enabled (eq $v.control.port $v.control.adminPort) }}{{ fail "control.port is control.adminPort's already" }}{{ end }}
{{- if and $v.injector.enabled (eq $v.certificates.mode "existing") }}
{{- if not (and $v.certificates.existingSecret $v.certificates.caBundle) }}{{ fail "certificates.mode existing needs existingSecret and caBundle" }}{{ end }}
{{- end }}
{{- if and (eq (toString (dig "enforce" true $v.config)) "false") (not (contains "MEMPROXY_ALLOW_UNSAFE" (toJson $v.sidecar.env))) }}{{ fail "config.enforce is false: the sidecar starts with that only if sidecar.env has {name: MEMPROXY_ALLOW_UNSAFE, value: enforce}" }}{{ end }}
{{- if hasKey (dig "admin" dict $v.config) "probes" }}{{ fail "config.admin.probes would move the listener away from where the kubelet's probes and Prometheus ask: set sidecar.adminPort" }}{{ end }}
{{- if hasKey $v.config "backends" }}{{ fail "config.backends would move the listeners away from what the pods' variables name: set backends, with further keys in backends[].extra" }}{{ end }}
{{- if hasKey $v.control.config "listen" }}{{ fail "control.config.listen would move the listener away from the Service: set control.port" }}{{ end }}
{{- if hasKey (dig "admin" dict $v.control.config) "listen" }}{{ fail "control.config.admin.listen would move the listener away from the Service and the kubelet's probes: set control.adminPort" }}{{ end }}
{{- if and $v.postgres.existingSecret (not (and $v.keys.existingSecret (has "vault.key" $v.keys.files))) }}{{ fail "postgres needs keys.existingSecret with vault.key among keys.files: sidecars take what another key signed for edited" }}{{ end }}
{{- if and $v.identity.token.enabled (not $v.identity.token.issuer) }}{{ fail "identity.token needs the cluster's issuer" }}{{ end }}
{{- if and (or $v.fleet.enabled $v.control.enabled) (not (and $v.fleet.name $v.fleet.keys)) }}{{ fail "fleet needs name and keys: releases are named and signed" }}{{ end }}
{{- if and $v.fleet.enabled (not $v.fleet.clientSecret) }}{{ fail "fleet.clientSecret is empty: sidecars have no certificate for the control plane" }}{{ end }}
{{- if and $v.fleet.enabled (not $v.fleet.address) (not $v.control.enabled) }}{{ fail "fleet.address is empty, and this chart runs no control plane" }}{{ end }}
{{- if and $v.control.enabled (not (and $v.control.tlsSecret $v.control.releasesClaim $v.control.sidecars)) }}{{ fail "control needs tlsSecret, releasesClaim and sidecars" }}{{ end }}
{{- if and $v.backends (not $v.identity.pod.enabled) (not $v.identity.token.enabled) (not (hasKey $v.config "identity")) }}{{ fail "identity.pod and identity.token are off, and config.identity is empty: the sidecar could identify nobody" }}{{ end }}
{{- $names := dict "admin" true "probes" true }}
{{- $ports := dict (toString (int $v.sidecar.adminPort)) "sidecar.adminPort" }}
{{- if hasKey $ports (toString (int $v.sidecar.reviewPort)) }}{{ fail "sidecar.reviewPort is sidecar.adminPort's already" }}{{ end }}
{{- $_ := set $ports (toString (int $v.sidecar.reviewPort)) "sidecar.reviewPort" }}
{{- range $v.backends }}
{{- if hasKey (.extra | default dict) "listen" }}{{ fail (printf "backend %s: extra.listen would move the listener away from what the pods' variables name: set port" .name) }}{{ end }}
{{- if hasKey $names .name }}{{ fail (printf "backend %s: the name is taken" .name) }}{{ end }}
{{- $_ := set $names .name true }}
{{- $port := toString (int .port) }}
{{- if hasKey $ports $port }}{{ fail (printf "backend %s: port %s is %s's already" .name $port (get $ports $port)) }}{{ end }}
{{- $_ := set $ports $port .name }}
{{- if and .credential (regexMatch "^http://[^.:/\\[]+([.][^.:/]+)?(:|/|$)" .upstream) }}{{ fail (printf "backend %s: a pod could have the host of %s lead to itself and get the credential: write NAME.NAMESPACE.svc, or use HTTPS" .name .upstream) }}{{ end }}
{{- if and .pods (not .credential) $v.networkPolicy.enabled }}
{{- if not (dig "allowWithoutCredential" false .pods) }}{{ fail (printf "backend %s: a NetworkPolicy without a credential keeps agents' pods out and not agents: they share the pod with the sidecar. Give credential, or say pods.allowWithoutCredential" .name) }}{{ end }}
{{- end }}
{{- end }}
{{- $variables := dict }}
{{- range include "memproxy.env" . | fromYamlArray }}
{{- if hasKey $variables .name }}{{ fail (printf "%s would lead to two backends: name the variables of each in backends[].env" .name) }}{{ end }}
{{- $_ := set $variables .name true }}
{{- end }}
{{- end }}
