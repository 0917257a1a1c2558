package secrets

// phone returns the end of a telephone number that begins with the + or the
// parenthesis at i, or 0.
func phone(text string, i int) int {
	if i > 0 && (alnum(text[i-1]) || text[i-1] == '+' || text[i-1] == '/') {
		return 0 // a sum, a call, or base64
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
	case digits > 15, end < len(text) && (alnum(text[end]) || text[end] == '_'), open:
		return 0
	case plus && digits >= 9, !plus && digits == 10:
		return end
	}
	return 0
}
