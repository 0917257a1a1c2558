package inject

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Patch is one operation of a JSON Patch (RFC 6902).
type Patch struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value raw    `json:"value,omitzero"`
}

// answer is a webhook's response about a pod.
type answer struct {
	// refuse is the reason to refuse the pod; "" allows it.
	refuse   string
	result   string // result is the metric label: injected, skipped, refused, ok.
	patch    []Patch
	warnings []string
}

func refused(format string, args ...any) answer {
	return answer{refuse: fmt.Sprintf(format, args...), result: "refused"}
}

func (i *Injector) mutate(p *pod) answer {
	wish, err := i.wanted(p)
	if err != nil {
		return refused("%v", err)
	}
	if !wish {
		return i.skip(p)
	}
	t := i.template
	if why := cmp.Or(i.unsuitable(p), t.collision(p)); why != "" {
		return refused("%s", why)
	}
	b := &builder{}
	b.object("/metadata/labels", p.Metadata.Labels, t.labels)
	b.object("/metadata/annotations", p.Metadata.Annotations, t.notes)
	b.volumes(p, t)
	chosen := b.containers(p, t)
	if len(chosen) > 0 {
		return refused("%s names %s, which the pod does not have", AnnotationContainers, strings.Join(chosen, ", "))
	}
	b.sidecar(p, t)
	return answer{patch: b.ops, warnings: b.warnings, result: "injected"}
}

// wanted reports whether the pod is to be injected: by its opt-in or opt-out, else by the
// installation's default.
func (i *Injector) wanted(p *pod) (bool, error) {
	switch wish, has := p.Metadata.Annotations[AnnotationInject]; {
	case !has:
		return i.opt.All, nil
	case wish == "true":
		return true, nil
	case wish == "false":
		return false, nil
	default:
		return false, fmt.Errorf("annotation %s is %q, want \"true\" or \"false\"", AnnotationInject, wish)
	}
}

// skip removes the label from a pod that gets no sidecar. Network policies of backends
// would otherwise admit the pod.
func (i *Injector) skip(p *pod) answer {
	a := answer{result: "skipped"}
	if _, has := p.Metadata.Labels[LabelInjected]; has {
		a.patch = []Patch{{Op: "remove", Path: "/metadata/labels/" + pointer(LabelInjected)}}
		a.warnings = []string{"label " + LabelInjected + " was removed: the pod has no sidecar"}
	}
	return a
}

// collision returns a name, port or path of the sidecar that the pod already uses, as a
// sentence; "" if there is none.
func (t *template) collision(p *pod) string {
	for _, c := range p.containers() {
		if c.Name == t.name {
			continue
		}
		for _, port := range c.Ports {
			if slices.Contains(t.ports, port.Port) {
				return fmt.Sprintf("container %s uses port %d, which is the sidecar's", c.Name, port.Port)
			}
		}
		for _, m := range c.VolumeMounts {
			for _, w := range t.mounts {
				if m.Path == w.at.Path && m.Name != w.name {
					return fmt.Sprintf("container %s mounts something else at %s", c.Name, m.Path)
				}
			}
		}
	}
	if slices.ContainsFunc(p.Spec.Containers, func(c container) bool { return c.Name == t.name }) {
		return fmt.Sprintf("a container is called %s, which is the sidecar's name", t.name)
	}
	return t.leak(p, true)
}

type builder struct {
	ops      []Patch
	warnings []string
}

func (b *builder) op(op, path string, v any) {
	value, ok := v.(raw)
	if !ok {
		value, _ = encode(v) // cannot fail: strings, and lists of raw values
	}
	b.ops = append(b.ops, Patch{Op: op, Path: path, Value: value})
}

// object sets members of a string map, which may be absent.
func (b *builder) object(path string, have, want map[string]string) {
	if len(want) == 0 {
		return
	}
	if have == nil {
		b.op("add", path, want)
		return
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if have[k] != want[k] {
			b.op("add", path+"/"+pointer(k), want[k]) // the operation add also replaces an existing member
		}
	}
}

// list adds parts to a list, or replaces parts of the same name. each returns the indices
// of the parts with the same name.
func (b *builder) list(path string, length int, want []part, front bool, each func(part) []int) {
	var fresh []raw
	for _, w := range want {
		at := each(w)
		for _, k := range at {
			b.op("replace", path+"/"+strconv.Itoa(k), w.value)
		}
		if len(at) == 0 {
			fresh = append(fresh, w.value)
		}
	}
	switch {
	case len(fresh) == 0:
	case length == 0:
		b.op("add", path, fresh)
	case front: // in reverse order, so that they end up in order
		for _, v := range slices.Backward(fresh) {
			b.op("add", path+"/0", v)
		}
	default:
		for _, v := range fresh {
			b.op("add", path+"/-", v)
		}
	}
}

func (b *builder) volumes(p *pod, t *template) {
	b.list("/spec/volumes", len(p.Spec.Volumes), t.volumes, false, func(w part) []int {
		if k := slices.IndexFunc(p.Spec.Volumes, func(v volume) bool { return v.name() == w.name }); k >= 0 {
			return []int{k}
		}
		return nil
	})
}

// containers adds the environment and the mounts to every other container. It returns the
// names in the annotation that match no container.
func (b *builder) containers(p *pod, t *template) (missing []string) {
	only, limited := p.Metadata.Annotations[AnnotationContainers]
	if limited {
		for name := range strings.SplitSeq(only, ",") {
			missing = append(missing, strings.TrimSpace(name))
		}
	}
	names := slices.Clone(missing)
	for path, c := range p.containers() {
		if c.Name == t.name || limited && !slices.Contains(names, c.Name) || strings.HasPrefix(path, ephemeralContainers) { // new pods have no ephemeral containers
			continue
		}
		missing = slices.DeleteFunc(missing, func(s string) bool { return s == c.Name })
		b.env(path+"/env", c, t)
		b.list(path+"/volumeMounts", len(c.VolumeMounts), t.mounts, false, func(w part) (at []int) {
			for n, m := range c.VolumeMounts {
				if m == w.at {
					at = append(at, n)
				}
			}
			return at
		})
	}
	return missing
}

// env prepends the template's variables, so that the container's own variables can refer
// to them. It replaces variables of the same name, with a warning.
func (b *builder) env(path string, c *container, t *template) {
	b.list(path, len(c.Env), t.env, true, func(w part) (at []int) {
		for n, v := range c.Env {
			if v.Name != w.name {
				continue
			}
			if at = append(at, n); !sameVariable(v, w.value) {
				b.warnings = append(b.warnings, fmt.Sprintf("container %s: %s now leads to the sidecar", c.Name, w.name))
			}
		}
		return at
	})
}

// sidecar inserts the container before all other init containers, so that it already runs
// when they start.
func (b *builder) sidecar(p *pod, t *template) {
	const path = initContainers
	if len(p.Spec.InitContainers) == 0 {
		b.op("add", path, []raw{t.sidecar})
		return
	}
	switch k := slices.IndexFunc(p.Spec.InitContainers, func(c container) bool { return c.Name == t.name }); {
	case k == 0:
		b.op("replace", path+"/0", t.sidecar)
		return
	case k > 0:
		b.ops = append(b.ops, Patch{Op: "remove", Path: path + "/" + strconv.Itoa(k)})
	}
	b.op("add", path+"/0", t.sidecar)
}

// pointer escapes a key for a JSON pointer.
func pointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
