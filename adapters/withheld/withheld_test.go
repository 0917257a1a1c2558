package withheld_test

import (
	"testing"

	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/withheld"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-13: a secret's name counts in every letter case and with dashes, whether the
// answer is searched for such names first or not.
func TestSecretsInEverySpelling(t *testing.T) {
	keep := func(jsondoc.Member) bool { return false }
	for _, name := range []string{
		"api_key", "API_KEY", "Api-Key", "X-API-KEY", "apikey", "APIKEY", "password", "PASSWORD", "token", "TOKEN", "Access_Token",
		"AUTHORIZATION", "CREDENTIALS", "PRIVATE-KEY", "KEY_ENC", "env", "Env", "SECRETS", "SOURCE_CODE", "Custom-Headers",
	} {
		body := []byte(`{"` + name + `":"sk-1"}`)
		want := `{"` + name + `":null}`
		if name == "KEY_ENC" { // no word of its own
			want = string(body)
		}
		expect.Equal(t, string(must.Get(withheld.Strip(body, keep))(t)), want)
		expect.Equal(t, string(withheld.StripDoc(must.Get(jsondoc.Parse(body, 0))(t), keep).Src), want)
	}
	plain := []byte(`{"Text":"no names here","n":[1,true]}`)
	expect.Equal(t, &must.Get(withheld.Strip(plain, keep))(t)[0], &plain[0])
}
