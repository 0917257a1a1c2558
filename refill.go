package memproxy

// A Refill fills up a list of which memories were left out, by more of it. It
// is not for concurrent use.
//
// Next is called until it reports false; in between Take and Add with what came
// of the request, and in the end Answer.
type Refill interface {
	// Next returns the next side request. False: the list is full, or there is
	// no more.
	Next() (Search, bool)
	// Take takes an answer and what was found and marked in it, and marks Drop
	// what is there already or too much.
	Take(Reply, *Reading) error
	// Add adds what is left of the answer, as Rewrite gave it.
	Add(kept []byte) error
	// Answer returns the list with what was added.
	Answer(body []byte) ([]byte, error)
}
