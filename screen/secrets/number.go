package secrets

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	maxDigits = 19
	maxGroups = 8
	minDigits = 9
)

// numbers are the formats of numbers, the first of which counts: the lengths of their groups of
// digits, and the separators between these.
var numbers = []struct {
	class      Class
	groups     [][]int
	separators string
}{
	{PaymentCard, [][]int{{13}, {14}, {15}, {16}, {17}, {18}, {19}, {4, 4, 4, 4}, {4, 6, 5}, {4, 6, 4}, {4, 4, 4, 4, 3}}, " -"},
	{USSSN, [][]int{{3, 2, 4}, {9}}, " -"},
	{Phone, [][]int{{3, 3, 4}}, "-."},
	{Phone, [][]int{{11}, {4, 3, 2, 2}, {1, 3, 3, 2, 2}, {4, 3, 4}}, " -."},
	{TurkishID, [][]int{{11}}, ""},
	{GermanTaxID, [][]int{{11}, {2, 3, 3, 3}}, " -"},
}

// valid reports whether the digits of a number can be one of a class, after some text. It is no
// column of the formats, because the digits of each candidate would then be allocated.
func valid(class Class, digits string, grouped bool, before string) bool {
	switch class {
	case PaymentCard:
		return card(digits)
	case USSSN:
		return ssn(digits) && (grouped || saidSSN(before))
	case TurkishID:
		return tckn(digits)
	case GermanTaxID:
		return germanTaxID(digits)
	}
	if len(digits) == 10 { // North American
		return digits[0] >= '2'
	}
	return digits[:2] == "05" // Turkish mobile
}

// number classifies the number at i and returns where to continue. The number may end
// after any group; the longest reading with a class is taken, since a card number may be
// followed by its date.
func (s *scanner) number(i int) int {
	found, groups := make([]byte, 0, maxDigits+1), make([]int, 0, maxGroups) // the digits, and the lengths of their groups
	var class Class
	end, at, separator := 0, i, byte(0)
	for len(groups) < maxGroups {
		from := at
		for ; at < len(s.text) && isDigit(s.text[at]) && len(found) <= maxDigits; at++ {
			found = append(found, s.text[at])
		}
		if at == from || len(found) > maxDigits {
			break
		}
		groups = append(groups, at-from)
		if len(found) >= minDigits && s.alone(i, at) {
			if c := meaning(found, groups, separator, s.text[max(0, i-40):i]); c != "" {
				class, end = c, at
			}
		}
		if at == len(s.text) || !betweenDigits[s.text[at]] || separator != 0 && s.text[at] != separator {
			break
		}
		separator = s.text[at]
		at++
	}
	if end > 0 {
		return s.add(class, i, end)
	}
	return digits.End(s.text, i)
}

var betweenDigits = terms.BytesOf(" -.")

// meaning returns the class of a number after some text, or "".
func meaning(digits []byte, groups []int, separator byte, before string) Class {
	for _, n := range numbers {
		shaped := slices.ContainsFunc(n.groups, func(g []int) bool { return slices.Equal(g, groups) })
		if shaped && (separator == 0 || strings.IndexByte(n.separators, separator) >= 0) && valid(n.class, string(digits), separator != 0, before) {
			return n.class
		}
	}
	return ""
}

// alone reports whether the span is a complete number, and not a part of an identifier, a
// decimal, a path, an order number or a longer number.
func (s *scanner) alone(start, end int) bool {
	if start > 0 {
		switch c := s.text[start-1]; c {
		case '#', '/', '$', '+':
			return false
		case '-', '.', ',':
			if start > 1 && alnum[s.text[start-2]] {
				return false
			}
		}
	}
	if end < len(s.text) {
		switch c := s.text[end]; {
		case alnum[c], c == '_', c == '%':
			return false
		case c == '-', c == '.', c == '/', c == ':', c == ',':
			return end+1 == len(s.text) || !alnum[s.text[end+1]]
		}
	}
	return true
}

// card reports whether the digits are in an issuer's range with its length, and pass the
// Luhn check.
func card(d string) bool {
	n := len(d)
	four, _ := strconv.Atoi(d[:4]) // cannot fail: they are digits
	two, three := four/100, four/10
	var known bool
	switch {
	case d[0] == '4':
		known = n == 13 || n == 16 || n == 19
	case 51 <= two && two <= 55, 2221 <= four && four <= 2720, four == 9792:
		known = n == 16
	case two == 34, two == 37:
		known = n == 15
	case four == 6011, two == 65, 644 <= three && three <= 649, two == 62, 3528 <= four && four <= 3589:
		known = n >= 16
	case 300 <= three && three <= 305, two == 36, two == 38, two == 39:
		known = n == 14
	}
	return known && variety(d, 2) == 2 && luhn(d)
}

func luhn(d string) bool {
	sum := 0
	for i := range len(d) {
		v := int(d[len(d)-1-i] - '0')
		if i%2 == 1 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

// ssn reports whether nine digits are in an issued range of US social security numbers.
func ssn(d string) bool {
	return d[:3] != "000" && d[:3] != "666" && d[0] != '9' && d[3:5] != "00" && d[5:] != "0000"
}

// saidSSN reports whether the words before a number say that it is a social security number.
func saidSSN(before string) bool {
	before = strings.ToLower(before)
	return strings.Contains(before, "ssn") || strings.Contains(before, "social security")
}

// tckn checks the two check digits of a Turkish identity number.
func tckn(d string) bool {
	if d[0] == '0' {
		return false
	}
	var sums [2]int // of the first nine digits: those at odd and at even places
	for i := range 9 {
		sums[i%2] += int(d[i] - '0')
	}
	check := int(d[9] - '0')
	return ((sums[0]*7-sums[1])%10+10)%10 == check && (sums[0]+sums[1]+check)%10 == int(d[10]-'0')
}

// germanTaxID checks a German tax identification number: among the first ten
// digits exactly one comes twice or three times and the others at most once,
// and the eleventh is the check digit of ISO 7064 MOD 11,10.
func germanTaxID(d string) bool {
	if d[0] == '0' {
		return false
	}
	var count [10]int
	product := 10
	for i := range 10 {
		v := int(d[i] - '0')
		count[v]++
		product = cmp.Or((v+product)%10, 10) * 2 % 11
	}
	repeated := 0
	for _, c := range count {
		if c > 3 {
			return false
		}
		if c > 1 {
			repeated++
		}
	}
	return repeated == 1 && (11-product)%10 == int(d[10]-'0')
}

// phone returns the end of a telephone number that begins with the + or the
// parenthesis at i, or 0.
func phone(text string, i int) int {
	if i > 0 && (alnum[text[i-1]] || text[i-1] == '+' || text[i-1] == '/') {
		return 0 // arithmetic, a call, or base64
	}
	plus := text[i] == '+'
	digits, end, open, last := 0, 0, false, byte(0)
	at := i
	if plus {
		at++
	}
	for ; at < len(text) && at-i < 28 && digits <= 15; at++ {
		c := text[at]
		switch {
		case isDigit(c):
			if digits == 0 && (c == '0' || !plus && c == '1') {
				return 0
			}
			digits++
			end = at + 1
		case c == '(' && !open && (last == 0 || isDigit(last) || last == ' '):
			open = true
		case c == ')' && open && isDigit(last):
			open = false
			if !plus && digits != 3 {
				return 0
			}
		case (c == ' ' || c == '-' || c == '.') && (isDigit(last) || last == ')'):
		default:
			at = len(text)
			continue
		}
		last = c
	}
	switch {
	case digits > 15, end < len(text) && (alnum[text[end]] || text[end] == '_'), open:
		return 0
	case plus && digits >= 9, !plus && digits == 10:
		return end
	}
	return 0
}

// ibanLength is the length of an IBAN by country.
var ibanLength = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29,
	"BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29,
	"ES": 24, "FI": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28,
	"HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20,
	"LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22,
	"MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25,
	"QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27,
	"SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}

// iban returns the end of an IBAN at i, with or without spaces between its groups of
// four, or 0.
func iban(text string, i int) int {
	if len(text)-i < 15 || !isUpper(text[i]) || !isUpper(text[i+1]) || !isDigit(text[i+2]) || !isDigit(text[i+3]) {
		return 0
	}
	length := ibanLength[text[i:i+2]]
	if length == 0 {
		return 0
	}
	var chars [34]byte
	n, at := 0, i
	for ; at < len(text) && n < length; at++ {
		c := text[at]
		if c == ' ' && n > 0 && n%4 == 0 && text[at-1] != ' ' {
			continue
		}
		if !isUpper(c) && !isDigit(c) {
			return 0
		}
		chars[n] = c
		n++
	}
	if n < length || at < len(text) && alnum[text[at]] {
		return 0
	}
	// Mod 97 over the number with its first four characters moved to the end
	// and each letter written as two digits.
	rest := 0
	for k := range length {
		c := chars[(k+4)%length]
		if isDigit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	if rest != 1 {
		return 0
	}
	return at
}
