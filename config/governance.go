package config

import (
	"cmp"
	"time"

	"github.com/memproxy/memproxy"
)

// Namespaces lists the keys that content may be stored under.
type Namespaces struct {
	Allow   []string `yaml:"allow,omitempty" doc:"governed fields, including Letta's labels, that may be written; replaces the default list" default:"format, tone, project, constraints, the built-in governed fields, human and persona" loose:"more"`
	Outside string   `yaml:"outside,omitempty" doc:"writes to other fields: allow, mark, hold for review, or refuse" default:"mark in production, else allow" enum:"allow,mark,hold,refuse" loose:"order:refuse,hold,mark,allow;unsafe"`
}

// Layers configures each layer of memory.
type Layers struct {
	Episodic Layer `yaml:"episodic,omitempty" doc:"raw messages"`
	Semantic Layer `yaml:"semantic,omitempty" doc:"facts and blocks"`
	Task     Layer `yaml:"task,omitempty" doc:"work items"`
}

// Layer configures one layer.
type Layer struct {
	Inferred string   `yaml:"inferred,omitempty" doc:"overrides memories.inferred" default:"as memories.inferred" enum:"allow,mark,hold,refuse" loose:"order:refuse,hold,mark,allow;unsafe"`
	TTL      Duration `yaml:"ttl,omitempty" doc:"longest time that its memories are kept; absent: as memories.ttl" loose:"up0"`
	Fields   []string `yaml:"fields,omitempty" doc:"governed fields that belong to it on any route; for tasks the default is task, tasks, task_list, todo, todos, todo_list, plan and plans" loose:"-"`
}

// of maps the layers by name.
func (l *Layers) of() map[memproxy.Layer]*Layer {
	return map[memproxy.Layer]*Layer{memproxy.Episodic: &l.Episodic, memproxy.Semantic: &l.Semantic, memproxy.Task: &l.Task}
}

func (m *Memories) governanceDefaults(outside string) {
	m.Inferred = cmp.Or(m.Inferred, string(memproxy.TreatMark))
	m.Namespaces.Outside = cmp.Or(m.Namespaces.Outside, outside)
	if m.Namespaces.Allow == nil {
		m.Namespaces.Allow = memproxy.DefaultNamespaces()
	}
	for _, l := range m.Layers.of() {
		l.Inferred = cmp.Or(l.Inferred, m.Inferred)
	}
	if m.Layers.Task.Fields == nil {
		m.Layers.Task.Fields = memproxy.DefaultTaskFields()
	}
}

// Governance converts the settings of layers and keys.
func (m *Memories) Governance() memproxy.Governance {
	g := memproxy.Governance{
		Outside: memproxy.Treatment(m.Namespaces.Outside), Inferred: map[memproxy.Layer]memproxy.Treatment{}, Fields: map[string]memproxy.Layer{},
	}
	for _, name := range m.Namespaces.Allow {
		g.Namespaces = append(g.Namespaces, memproxy.Key(name))
	}
	for name, l := range m.Layers.of() {
		g.Inferred[name] = memproxy.Treatment(l.Inferred)
		for _, f := range l.Fields {
			g.Fields[memproxy.Key(f)] = name
		}
	}
	return g
}

// LayerTTL is how long memories of a layer are kept at most; 0: for ever.
func (m *Memories) LayerTTL(l memproxy.Layer) time.Duration {
	if layer := m.Layers.of()[l]; layer != nil {
		return layer.TTL.Time()
	}
	return 0
}

// governance checks that each field belongs to one layer.
func (v *reader) governance(m *Memories, at func(...any) int) {
	belongs := map[string]memproxy.Layer{}
	for _, name := range [...]memproxy.Layer{memproxy.Episodic, memproxy.Semantic, memproxy.Task} {
		for i, f := range m.Layers.of()[name].Fields {
			f = memproxy.Key(f)
			if other, ok := belongs[f]; ok && other != name {
				v.fault(at("memories", "layers", string(name), "fields", i), "the field %q belongs to the layer %s already", f, other)
			}
			belongs[f] = name
		}
	}
}
