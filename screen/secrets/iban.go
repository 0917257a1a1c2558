package secrets

// ibanLength is the length of each country's account numbers.
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

// iban returns the end of an account number at i, with or without spaces
// between its groups of four, or 0.
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
	if n < length || at < len(text) && alnum(text[at]) {
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
