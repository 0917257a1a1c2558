package gate

// The HTTP statuses of refusals (RFC 9110). The gate speaks them as numbers,
// because both faces answer HTTP but the gate itself does not.
const (
	StatusBadRequest   = 400
	StatusUnauthorized = 401
	StatusForbidden    = 403
	StatusNotFound     = 404
	StatusTooLarge     = 413
	StatusUnprocessed  = 422
	StatusTooMany      = 429
	StatusBadGateway   = 502
	StatusUnavailable  = 503
)
