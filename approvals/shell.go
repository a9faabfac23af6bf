package approvals

// shellScan stands in for the scanner.
type shellScan struct {
	Unreadable                               string
	Effects                                  []Effect
	Static, Single, Opaque                   bool
	Unresolved, Hiding                       []Mechanism
	Programs, Wrappers, Writes, Reads, Hosts []string
	Floor                                    *Floor
	Canonical                                string
	Words                                    []string
	EnvLeak, Dynamic                         []string
	OpenWorld                                []string
}

func scanText(text string, place Place) *shellScan { return &shellScan{} }

func scanArgv(argv []string, place Place) *shellScan { return &shellScan{} }

func singleWords(pattern string) []string { return nil }

func canonicalWords(words []string) []string { return nil }
