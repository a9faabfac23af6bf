package shellscan

// What the scan reached before; a change must not fall behind it.
const floorRatchet = 49

var agreementRatchet = map[string]float64{
	"programs": 98.5, "wrappers": 100, "writes": 100, "hosts": 100, "resolves": 100, "opaque": 99.8,
}
