package assembly

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memproxy/memproxy/screen/terms"
)

// RecipeKey identifies the memory that a recipe is read from, across sessions and authors.
type RecipeKey struct {
	Tenant, User, Agent, App string
}

// Recipes remembers which ingredients of an exfiltration recipe were written to each
// memory: how to pack data, how to send it, and where to. Each is harmless by itself;
// together they are an instruction that no single write contains. It is safe for
// concurrent use.
type Recipes struct {
	mu   sync.Mutex
	kept simplelru.LRUCache[RecipeKey, *[kinds][]ingredient]
}

const (
	packs = iota
	carries
	aims
	kinds
)

type ingredient struct {
	kind    int
	write   string
	at      time.Time
	suspect bool // from an untrusted or hostile source
}

const keptEach = 4 // bounds the remembered ingredients of one kind in one memory

// recipeMemories bounds the memories with ingredients, of which the least recently
// written is dropped first. recipeTime is how long an ingredient is remembered.
const (
	recipeMemories = 4096
	recipeTime     = 30 * 24 * time.Hour
)

// NewRecipes returns an empty store.
func NewRecipes() *Recipes {
	kept, _ := simplelru.NewLRU[RecipeKey, *[kinds][]ingredient](recipeMemories, nil)
	return &Recipes{kept: kept}
}

// Completing returns the indices of the texts of a write that complete a recipe with the
// ingredients of other writes: all kinds are present, from more than one write, and the
// destination came from an untrusted or hostile source. It changes nothing.
func (r *Recipes) Completing(who RecipeKey, write string, texts []string, suspect bool, now time.Time) []int {
	left := r.fromOthers(who, write, now)
	if len(left) == 0 {
		return nil // most memories have no ingredients: the texts need not be read
	}
	own, which := ingredients(texts)
	have := own
	aimed, others := own[aims] && suspect, false
	for _, in := range left {
		have[in.kind] = true
		aimed = aimed || in.kind == aims && in.suspect
		others = others || !own[in.kind]
	}
	if !aimed || !others || have != [kinds]bool{true, true, true} {
		return nil
	}
	return which
}

// fromOthers returns the ingredients that writes other than the given one left in a memory.
func (r *Recipes) fromOthers(who RecipeKey, write string, now time.Time) (all []ingredient) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kept, ok := r.kept.Peek(who); ok {
		for _, in := range slices.Concat(kept[:]...) {
			if in.write != write && now.Sub(in.at) < recipeTime {
				all = append(all, in)
			}
		}
	}
	return all
}

// Commit remembers the ingredients of a write that went through.
func (r *Recipes) Commit(who RecipeKey, write string, texts []string, suspect bool, now time.Time) {
	own, which := ingredients(texts)
	if len(which) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.kept.Get(who)
	if !ok {
		e = &[kinds][]ingredient{}
		r.kept.Add(who, e)
	}
	for k, is := range own {
		if is {
			list := slices.DeleteFunc(e[k], func(in ingredient) bool { return in.write == write || now.Sub(in.at) >= recipeTime })
			// Ingredients of untrusted sources are evicted last, so that trusted writes
			// cannot push them out.
			for len(list) >= keptEach {
				at := slices.IndexFunc(list, func(in ingredient) bool { return !in.suspect })
				list = slices.Delete(list, max(at, 0), max(at, 0)+1)
			}
			e[k] = append(list, ingredient{k, write, now, suspect})
		}
	}
}

// roles maps the hash of a word to the set of ingredient kinds that it names.
var roles = func() (all terms.Table[byte]) {
	for k, words := range [kinds]string{
		packs:   "tar zip gzip 7z compress compressing compressed archive archiving bundle dump mysqldump pg_dump backup backups pack",
		carries: "curl wget scp rsync nc netcat ftp sftp rclone upload uploads uploading transfer transfers transferring post posting",
		aims:    "endpoint endpoints server destination collector receiver sink upload uploads backup backups drop storage target mirror webhook",
	} {
		for w := range strings.FieldsSeq(words) {
			*all.At(hash(w)) |= 1 << k
		}
	}
	return all
}()

// inRole are the bytes that such a word may contain.
var inRole = terms.BytesOf(" \t\n,;!?()[]{}\"'`<>").Not()

var around = terms.BytesOf(".:*_")

// ingredients returns which kinds of ingredient the texts have, and the indices of the
// texts that have any.
func ingredients(texts []string) (all [kinds]bool, which []int) {
	for i, text := range texts {
		found := ingredientsOf(text)
		for k, is := range found {
			all[k] = all[k] || is
		}
		if found != [kinds]bool{} {
			which = append(which, i)
		}
	}
	return all, which
}

func ingredientsOf(text string) (found [kinds]bool) {
	for from, to := range terms.Sentences(text, terms.EndMarks, " \n", len(text)) {
		t, named := text[from:to], byte(0)
		for from, to := range inRole.Runs(t) {
			named |= roles.Get(hash(bare(t, from, to)))
		}
		found[packs] = found[packs] || named&(1<<packs) != 0
		found[carries] = found[carries] || named&(1<<carries) != 0
		if named&(1<<aims) == 0 || found[aims] {
			continue
		}
		for from, to := range inRole.Runs(t) {
			found[aims] = found[aims] || terms.IsAddress(strings.ToLower(bare(t, from, to)))
		}
	}
	return found
}

// bare returns the word s[from:to] without the punctuation around it.
func bare(s string, from, to int) string {
	from = min(around.End(s, from), to)
	return s[from:max(from, around.Begin(s, to))]
}
