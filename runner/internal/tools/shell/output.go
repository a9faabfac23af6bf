package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxSpill bounds the file that keeps a long output.
const maxSpill = 16 << 20

// collector keeps the head and the tail of an output, the whole of it in a
// file when it is longer than the budget, and passes it on as it comes. It
// is safe for concurrent use; after seal it discards.
type collector struct {
	mu       sync.Mutex
	budget   int
	spillDir string
	onOutput func(string)

	head    []byte
	tail    []byte // ring of budget-budget/2 bytes
	tailAt  int    // where the next byte goes once the ring is full
	total   int64
	passed  int    // bytes given to onOutput
	partial []byte // start of a rune that the next write completes

	spill     *os.File
	spillPath string
	spilled   int64
	spillErr  error
	sealed    bool
}

func newCollector(r Request) *collector {
	budget := r.MaxOutput
	if budget <= 0 {
		budget = defaultMaxOutput
	}
	return &collector{budget: budget, spillDir: r.SpillDir, onOutput: r.OnOutput}
}

// Write never fails: a script must not die of our bookkeeping.
func (c *collector) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return len(p), nil
	}
	if c.spill == nil && c.spillErr == nil && c.total+int64(len(p)) > int64(c.budget) {
		c.openSpill()
	}
	c.addSpill(p)
	c.total += int64(len(p))
	c.pass(p)
	c.keep(p)
	return len(p), nil
}

func (c *collector) keep(p []byte) {
	if room := c.budget/2 - len(c.head); room > 0 {
		n := min(room, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	size := c.budget - c.budget/2
	if len(p) > size {
		p = p[len(p)-size:]
		c.tail, c.tailAt = c.tail[:0], 0
	}
	if room := size - len(c.tail); room > 0 {
		n := min(room, len(p))
		c.tail = append(c.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.tailAt:], p)
		c.tailAt = (c.tailAt + n) % size
		p = p[n:]
	}
}

// kept returns head and tail in order.
func (c *collector) kept() (head, tail []byte) {
	tail = append(append(make([]byte, 0, len(c.tail)), c.tail[c.tailAt:]...), c.tail[:c.tailAt]...)
	return c.head, tail
}

// openSpill starts the file with what was kept so far, which is everything.
func (c *collector) openSpill() {
	if c.spillDir == "" {
		c.spillErr = os.ErrNotExist
		return
	}
	if c.spillErr = os.MkdirAll(c.spillDir, 0o700); c.spillErr != nil {
		return
	}
	path := filepath.Join(c.spillDir, "output-"+randomHex(8)+".txt")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		c.spillErr = err
		return
	}
	c.spill, c.spillPath = f, path
	head, tail := c.kept()
	c.addSpill(head)
	c.addSpill(tail)
}

func (c *collector) addSpill(p []byte) {
	if c.spill == nil || c.spillErr != nil {
		return
	}
	p = p[:min(int64(len(p)), maxSpill-c.spilled)]
	n, err := c.spill.Write(p)
	c.spilled += int64(n)
	c.spillErr = err
}

// pass hands p on in whole runes, up to the budget.
func (c *collector) pass(p []byte) {
	if c.onOutput == nil || c.passed >= c.budget {
		return
	}
	c.partial = append(c.partial, p...)
	n, left := runeEnd(c.partial), c.budget-c.passed
	full := n >= left
	if full {
		n = runeEnd(c.partial[:left])
	}
	if n > 0 {
		c.onOutput(string(c.partial[:n]))
	}
	c.passed += n
	c.partial = append(c.partial[:0], c.partial[n:]...)
	if full {
		c.passed, c.partial = c.budget, nil
	}
}

// runeEnd returns how much of p is whole runes; invalid bytes count as such.
func runeEnd(p []byte) int {
	for i := len(p) - 1; i >= 0 && i >= len(p)-utf8.UTFMax+1; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return i
			}
			break
		}
	}
	return len(p)
}

// seal ends the collection and puts what the model sees into res.
func (c *collector) seal(res *Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return
	}
	c.sealed = true
	if c.spill != nil {
		if err := c.spill.Close(); c.spillErr == nil {
			c.spillErr = err
		}
	}
	if c.onOutput != nil && len(c.partial) > 0 && c.passed+len(c.partial) <= c.budget {
		c.onOutput(string(c.partial))
	}
	head, tail := c.kept()
	res.TotalBytes, res.SpillPath = c.total, c.spillPath
	if c.total <= int64(len(head)+len(tail)) {
		res.Output = string(head) + string(tail)
		return
	}
	res.Truncated = true
	head = head[:runeEnd(head)]
	for i := 0; i < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	res.Output = string(head) + c.note(len(head)+len(tail)) + string(tail)
}

// note stands where the middle of the output is left out.
func (c *collector) note(shown int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n[… %d of %d bytes left out", c.total-int64(shown), c.total)
	switch {
	case c.spillPath == "":
		b.WriteString("; the whole output was not kept")
	case c.spilled < c.total:
		fmt.Fprintf(&b, "; the first %d bytes are in %s", c.spilled, c.spillPath)
	default:
		fmt.Fprintf(&b, "; the whole output is in %s", c.spillPath)
	}
	b.WriteString(" …]\n")
	return b.String()
}
