package secrets

// Class is the kind of a hit.
type Class string

// The classes. Credentials first, then personal data.
const (
	AWSAccessKey     Class = "aws_access_key"    // access key id, AKIA… or ASIA…
	AWSSecretKey     Class = "aws_secret_key"    // 40 characters, assigned to a name that says so
	GitHubToken      Class = "github_token"      // ghp_, gho_, ghu_, ghs_, ghr_, github_pat_
	GitLabToken      Class = "gitlab_token"      // glpat- and its sisters
	SlackToken       Class = "slack_token"       // xoxb-, xoxp-, xapp- …
	SlackWebhook     Class = "slack_webhook"     // hooks.slack.com/services/…
	StripeKey        Class = "stripe_key"        // sk_live_, rk_live_, whsec_; publishable keys are none
	OpenAIKey        Class = "openai_key"        // sk-, sk-proj- …
	AnthropicKey     Class = "anthropic_key"     // sk-ant-
	GoogleKey        Class = "google_key"        // AIza…, ya29.…, GOCSPX-
	ServiceToken     Class = "service_token"     // tokens of other services with a fixed prefix
	JWT              Class = "jwt"               // three parts, the first a JSON header with alg
	PrivateKey       Class = "private_key"       // PEM, OpenSSH, PGP, age
	ConnectionString Class = "connection_string" // scheme://user:password@host
	Credential       Class = "credential"        // password: …, api_key=…
	PaymentCard      Class = "payment_card"      // issuer range, length and Luhn
	IBAN             Class = "iban"              // country's length and mod 97
	USSSN            Class = "us_ssn"            // 3-2-4 in a range that is issued
	TurkishID        Class = "tr_tckn"           // 11 digits, both check digits
	GermanTaxID      Class = "de_tax_id"         // 11 digits, digit pattern and check digit
	Email            Class = "email"
	Phone            Class = "phone" // +country…, or the North American forms
)

// traits has the severity and rank of a class. Of two overlapping hits, that of the
// higher rank is kept.
type traits struct {
	severity string
	rank     int
}

// special has the traits of classes that differ from those of a token with a known
// format.
var special = map[Class]traits{
	Email: {"low", 0}, Phone: {"low", 0},
	IBAN: {"medium", 1}, PaymentCard: {"high", 1}, USSSN: {"high", 1}, TurkishID: {"high", 1}, GermanTaxID: {"high", 1},
	Credential: {"high", rankSecret}, AWSSecretKey: {"critical", 3}, JWT: {"high", 4}, SlackWebhook: {"high", 5}, ConnectionString: {"critical", 5},
}

const rankSecret = 2 // the lowest rank of a credential

func (c Class) traits() traits {
	if t, ok := special[c]; ok {
		return t
	}
	return traits{"critical", 4}
}

// Severity returns how serious it is if c is in a memory: critical and high for what
// gives access to a system or an account, medium and low for what identifies a person.
func (c Class) Severity() string { return c.traits().severity }

// Secret reports whether c is a credential, as opposed to personal data.
func (c Class) Secret() bool { return c.traits().rank >= rankSecret }

// Hit is a match: text[Start:End].
type Hit struct {
	Class      Class
	Start, End int
}
