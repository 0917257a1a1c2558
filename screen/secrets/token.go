package secrets

import (
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

// format describes a token that is recognised by its prefix; the table has several
// prefixes per entry.
type format struct {
	prefix   string
	class    Class
	alphabet *terms.Bytes
	// min and max are the lengths of what follows the prefix.
	min, max int
	// mixed requires a letter and a digit after the prefix, if the prefix alone could
	// begin a word.
	mixed bool
}

const maxToken = 512 // the longest token

// formats are tried in order, by first byte: of two with a common prefix the longer is
// first.
var formats = []format{
	{"AKIA", AWSAccessKey, &upperDigit, 16, 16, false},
	{"ASIA ABIA ACCA", AWSAccessKey, &upperDigit, 16, 16, true},
	{"ghp_ gho_ ghu_ ghs_ ghr_", GitHubToken, &alnum, 30, 255, false},
	{"github_pat_", GitHubToken, &alnumUnder, 36, 255, false},
	{"glpat-", GitLabToken, &word64Dot, 18, 300, false},
	{"gldt- glrt- glcbt- glptt- glft- glsoat-", GitLabToken, &word64, 20, 300, false},
	{"xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xapp-", SlackToken, &alnumHyphen, 16, 300, true},
	{"xoxe.xox", SlackToken, &word64Dot, 16, 300, true},
	{"sk_live_ sk_test_ rk_live_ rk_test_", StripeKey, &alnum, 16, 255, false},
	{"whsec_", StripeKey, &alnum, 24, 255, true},
	{"sk-ant-", AnthropicKey, &word64, 16, 255, true},
	{"sk-let-", ServiceToken, &word64, 20, 255, true},
	{"sk-or-v1-", ServiceToken, &hex, 32, 64, true},
	{"sk-proj- sk-svcacct- sk-admin-", OpenAIKey, &word64, 16, 255, true},
	{"sk-", OpenAIKey, &alnum, 16, 100, true},
	{"AIza", GoogleKey, &word64, 35, 35, false},
	{"ya29.", GoogleKey, &word64, 20, maxToken, true},
	{"GOCSPX-", GoogleKey, &word64, 24, 40, false},
	{"hf_", ServiceToken, &alnum, 30, 60, false},
	{"npm_", ServiceToken, &alnum, 36, 36, true},
	{"pypi-AgE", ServiceToken, &word64, 40, maxToken, false},
	{"SG.", ServiceToken, &word64Dot, 60, 80, true},
	{"dop_v1_", ServiceToken, &hex, 64, 64, false},
	{"shpat_", ServiceToken, &alnum, 32, 32, true},
	{"lin_api_", ServiceToken, &alnum, 32, 64, true},
	{"dapi", ServiceToken, &hex, 32, 32, true},
	{"gsk_", ServiceToken, &alnum, 40, 64, true},
	{"xai-", ServiceToken, &alnum, 60, 100, true},
	{"tvly-", ServiceToken, &alnumHyphen, 20, 64, true},
	{"m0-", ServiceToken, &alnum, 30, 64, true},
	{"m0sk_", ServiceToken, &word64, 20, 100, true},
	{"hvs.", ServiceToken, &word64, 20, 200, true},
	{"AGE-SECRET-KEY-1", PrivateKey, &upperDigit, 58, 58, false},
}

// byFirst indexes formats by the first byte of each prefix.
var byFirst = func() (t [256][]format) {
	for _, f := range formats {
		for prefix := range strings.FieldsSeq(f.prefix) {
			f.prefix = prefix
			t[prefix[0]] = append(t[prefix[0]], f)
		}
	}
	return t
}()

// token returns the end and class of a token of a known format at i, or 0.
func token(text string, i int) (int, Class) {
	rest := text[i:]
	for k := range byFirst[rest[0]] {
		f := &byFirst[rest[0]][k] // a pointer avoids a copy
		if !strings.HasPrefix(rest, f.prefix) {
			continue
		}
		end := f.alphabet.End(rest[:min(len(rest), len(f.prefix)+f.max+1)], len(f.prefix))
		body := strings.TrimRight(rest[len(f.prefix):end], ".-")
		if len(body) < f.min || len(body) > f.max {
			continue
		}
		if variety(body, 5) < 5 || f.mixed && !(hasDigit(body) && hasLetter(body)) {
			continue // repeated characters, or words joined by hyphens
		}
		if strings.Contains(strings.ToLower(body), "example") {
			continue // an example from a provider's documentation
		}
		return i + len(f.prefix) + len(body), f.class
	}
	return 0, ""
}
