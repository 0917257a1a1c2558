package contract_test

import (
	"testing"

	"github.com/memproxy/memproxy/internal/seldomgc"
)

func TestMain(m *testing.M) { seldomgc.Main(m) }
