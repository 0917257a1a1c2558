package embedded

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestWindowKeepsTheNewest(t *testing.T) {
	w := window[int]{max: 3, maxBytes: 10}
	var gone []int
	for i := range 10 {
		gone = append(gone, w.add(i, 2)...)
	}
	if !slices.Equal(w.values(), []int{7, 8, 9}) || !slices.Equal(gone, []int{0, 1, 2, 3, 4, 5, 6}) {
		t.Error(w.values(), gone)
	}
	w.add(10, 9) // two of the small ones no longer fit, nor does the third
	if !slices.Equal(w.values(), []int{10}) {
		t.Error("bytes are not bounded:", w.values())
	}
	w.add(11, 99) // a single entry stays, however large
	if !slices.Equal(w.values(), []int{11}) {
		t.Error(w.values())
	}
	var none window[int]
	none.add(1, 1)
	if len(none.values()) != 0 {
		t.Error("the zero value keeps something")
	}
}

// The shelves must agree with a plain list after any mixture of operations.
func TestShelvesAgreeWithAList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	n := 0
	s := newStore(40, func() string { n++; return fmt.Sprint(n) })
	var model []*slot
	for range 5000 {
		switch op := rng.IntN(10); {
		case op < 6:
			m := &memory{user: fmt.Sprint(rng.IntN(3)), app: fmt.Sprint(rng.IntN(2)), created: "c"}
			m.say(fmt.Sprint(rng.IntN(20)))
			s.add(m)
			model = append(model, s.byID[m.id])
			if len(model) > 40 {
				model = model[1:]
			}
		case op < 8 && len(model) > 0:
			i := rng.IntN(len(model))
			s.delete(model[i], "d")
			model = slices.Delete(model, i, i+1)
		case len(model) > 0:
			x := model[rng.IntN(len(model))]
			next := *x.memory
			next.app = fmt.Sprint(rng.IntN(2))
			next.say(fmt.Sprint(rng.IntN(20)))
			s.replace(x, &next, "u")
		}
		agree(t, s, model)
	}
}

func agree(t *testing.T, s *store, model []*slot) {
	t.Helper()
	if len(s.all.slots) != len(model) || len(s.byID) != len(model) {
		t.Fatalf("%d shelved, %d known, want %d", len(s.all.slots), len(s.byID), len(model))
	}
	perEntity := map[entityKey]int{}
	for _, x := range model {
		for _, kind := range kinds {
			if name := x.entity(kind); name != "" {
				perEntity[entityKey{kind, name}]++
			}
		}
		if !s.twin(x.memory) {
			t.Fatalf("%q is not found again", x.text)
		}
	}
	if len(s.entities) != len(perEntity) {
		t.Fatalf("%d entities, want %d", len(s.entities), len(perEntity))
	}
	for key, want := range perEntity {
		sh := s.entities[key]
		got := s.find(sh, func(m *memory) bool { return m.entity(key.kind) == key.name })
		if len(sh.slots) != want || len(got) != want {
			t.Fatalf("%v: %d of %d, want %d", key, len(got), len(sh.slots), want)
		}
	}
	if len(s.deleted) > maxDeleted {
		t.Fatal("deleted memories pile up")
	}
}

func TestLikeness(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want float64
	}{
		{"oat milk", "milk oat", 1}, {"tea", "coffee", 0}, {"invoice", "Invoices!", 1},
		{"the of", "?!", 1}, {"", "tea", 0}, {"tea tea", "tea", 1},
	} {
		if got := bagOf(c.a).likeness(bagOf(c.b)); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%q and %q: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		args          []string
		ok            bool
	}{
		{"/v1/memories/{}/", "/v1/memories/x/", []string{"x"}, true},
		{"/v1/memories/{}/", "/v1/memories//", nil, false},
		{"/v1/memories/{}/", "/v1/memories/x", nil, false},
		{"/v1/memories/{}/{}/", "/v1/memories/a/b/", []string{"a", "b"}, true},
		{"/v2/entities/{}/{/}/", "/v2/entities/user/a/b/", []string{"user", "a/b"}, true},
		{"/v2/entities/user/{/}/profile/", "/v2/entities/user/a/b/profile/", []string{"a/b"}, true},
		{"/v2/entities/user/{/}/profile/", "/v2/entities/user/profile/", nil, false},
		{"/memories", "/memories/", nil, false},
		{"/entities/{}/{/}", "/entities/user/", nil, false},
	} {
		args, ok := match(c.pattern, c.path)
		if ok != c.ok || ok && !slices.Equal(args, c.args) {
			t.Errorf("%s %s: %q %v", c.pattern, c.path, args, ok)
		}
	}
}
