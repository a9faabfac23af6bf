//go:build linux

package persistence

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// childEnv makes the test binary a process that works on a shared store: it
// reads an order a line from stdin and answers each with a line.
const childEnv = "GTH_PERSISTENCE_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(memoryEnv); dir != "" {
		if err := printMemory(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(childEnv) != "" {
		if err := childMain(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// order is what a child does; result what came of it.
type order struct {
	Do, ID, Text, Key string
	Lease             session.Lease
	Expect            session.Seq
	Sync              bool
}

type result struct {
	Lease  session.Lease
	Texts  []string
	N      int
	Leads  bool
	State  session.AskState
	Err    string
	Is     []string // which errors it is
	Closed bool
}

func allowPeer(int) error { return nil }

func childMain(in io.Reader, out io.Writer) error {
	o := Options{Dir: os.Getenv(childEnv), Peer: allowPeer}
	if beat, err := time.ParseDuration(os.Getenv(childEnv + "_BEAT")); err == nil {
		o.Beat = beat
	}
	s, err := OpenShared(context.Background(), o)
	enc := json.NewEncoder(out)
	if err != nil {
		return errors.Join(err, enc.Encode(result{Err: err.Error()}))
	}
	if err := enc.Encode(result{}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q order
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return err
		}
		if err := enc.Encode(carryOut(s, q)); err != nil {
			return err
		}
	}
	return errors.Join(s.Close(), lines.Err())
}

func carryOut(s *Shared, q order) (r result) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var err error
	switch q.Do {
	case "create":
		r.Lease, err = s.Create(ctx, testMeta(session.ID(q.ID)))
	case "acquire":
		r.Lease, err = s.Acquire(ctx, session.ID(q.ID))
	case "append":
		_, err = s.Append(ctx, session.Batch{Lease: q.Lease, Expect: q.Expect, Key: q.Key, Sync: q.Sync, At: at, Events: []session.Event{session.Text{Text: q.Text}}})
	case "log":
		var recs []session.Record
		recs, err = s.After(ctx, session.ID(q.ID), 0, 0)
		for _, rec := range recs {
			r.Texts = append(r.Texts, rec.Event.(session.Text).Text)
		}
	case "list":
		var page []session.Meta
		page, _, err = s.List(ctx, session.Filter{})
		r.N = len(page)
	case "putAsk":
		err = s.PutAsk(ctx, q.Lease, approvals.Request{ID: q.ID, Session: string(q.Lease.Session), Digest: "d", Created: at})
	case "answer":
		_, err = s.AnswerAsk(ctx, q.ID, approvals.Answer{Choice: approvals.AllowOnce, At: at}, approvals.Decision{Action: approvals.Approve})
	case "watch":
		var left <-chan struct{}
		if left, err = s.WatchAsk(ctx, q.ID); err == nil {
			select {
			case <-left:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
	case "putGrant":
		err = s.PutGrant(ctx, "/work", approvals.Grant{ID: q.ID, Entry: approvals.Entry{Type: "exec", Matcher: "prefix", Pattern: "make"}, At: at})
	case "grants":
		var gs []approvals.Grant
		gs, err = s.Grants(ctx, "/work")
		r.N = len(gs)
	case "leads":
		s.mu.Lock()
		r.Leads = s.link != nil && s.link.local != nil
		s.mu.Unlock()
	}
	if err != nil {
		r.Err = err.Error()
		r.Is = append(r.Is, value(toWire(err)).Kind)
	}
	return r
}

// child is such a process.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startChild starts one; it is killed when the test ends.
func startChild(t *testing.T, dir string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if r := c.read(); r.Err != "" {
		t.Fatalf("a process did not open the store: %s", r.Err)
	}
	return c
}

func (c *child) read() (r result) {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("a process ended: %v", c.out.Err())
	}
	if err := json.Unmarshal(c.out.Bytes(), &r); err != nil {
		c.t.Fatal(err)
	}
	return r
}

// begin gives an order whose result is read later.
func (c *child) begin(q order) {
	c.t.Helper()
	b, err := json.Marshal(q)
	if err == nil {
		_, err = c.in.Write(append(b, '\n'))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) do(q order) result {
	c.t.Helper()
	c.begin(q)
	return c.read()
}

// must is do that fails the test on an error.
func (c *child) must(q order) result {
	c.t.Helper()
	r := c.do(q)
	if r.Err != "" {
		c.t.Fatalf("%s: %s", q.Do, r.Err)
	}
	return r
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends a process that can do nothing about it.
func (c *child) kill() {
	c.t.Helper()
	c.signal(syscall.SIGKILL)
	_ = c.cmd.Wait()
}

// eventually tries until f is content.
func eventually(t *testing.T, within time.Duration, f func() error) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		err := f()
		if err == nil {
			return time.Since(start)
		}
		if time.Since(start) > within {
			t.Fatalf("not within %v: %v", within, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r result) is(kind string) bool { return len(r.Is) == 1 && r.Is[0] == kind }

func TestProcessesShareAStore(t *testing.T) {
	dir := t.TempDir()
	a, b := startChild(t, dir), startChild(t, dir)
	if !a.do(order{Do: "leads"}).Leads || b.do(order{Do: "leads"}).Leads {
		t.Fatal("the first one does not lead the second")
	}
	la := a.must(order{Do: "create", ID: "sa"}).Lease
	lb := b.must(order{Do: "create", ID: "sb"}).Lease
	for _, c := range []*child{a, b} {
		if n := c.must(order{Do: "list"}).N; n != 2 {
			t.Fatalf("a process lists %d sessions", n)
		}
	}
	// Nobody runs a session of the other, and the error says who does.
	for _, tt := range []struct {
		c, holder *child
		id        string
	}{{b, a, "sa"}, {a, b, "sb"}} {
		r := tt.c.do(order{Do: "acquire", ID: tt.id})
		if !r.is("conflict") || !strings.Contains(r.Err, fmt.Sprint(tt.holder.cmd.Process.Pid)) {
			t.Fatalf("a session that is held: %+v", r)
		}
	}
	a.must(order{Do: "append", Lease: la, Text: "1"})
	if r := b.do(order{Do: "append", Lease: la, Expect: 1, Text: "x"}); !r.is("lost") {
		t.Fatalf("a process wrote with the lease of another: %+v", r)
	}
	// A grant is there for both at once.
	b.must(order{Do: "putGrant", ID: "g"})
	if n := a.must(order{Do: "grants"}).N; n != 1 {
		t.Fatalf("%d grants", n)
	}
	// An answer reaches the process that asked, in both directions.
	for i, tt := range []struct {
		asks, answers *child
		lease         session.Lease
	}{{a, b, la}, {b, a, lb}} {
		id := fmt.Sprint("ask", i)
		tt.asks.must(order{Do: "putAsk", ID: id, Lease: tt.lease})
		tt.asks.begin(order{Do: "watch", ID: id})
		tt.answers.must(order{Do: "answer", ID: id})
		if r := tt.asks.read(); r.Err != "" {
			t.Fatalf("the watch: %s", r.Err)
		}
		if r := tt.asks.do(order{Do: "answer", ID: id}); !r.is("conflict") {
			t.Fatalf("answered twice: %+v", r)
		}
	}
}

func TestTakeOverAfterDeath(t *testing.T) {
	for name, leave := range map[string]func(*child){
		"end":  func(c *child) { c.in.Close(); _ = c.cmd.Wait() },
		"kill": (*child).kill,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, b, c := startChild(t, dir), startChild(t, dir), startChild(t, dir)
			a.must(order{Do: "create", ID: "sa"})
			lb := b.must(order{Do: "create", ID: "sb"}).Lease
			b.must(order{Do: "append", Lease: lb, Text: "1", Key: "k1"})
			b.must(order{Do: "putAsk", ID: "ask", Lease: lb})
			b.begin(order{Do: "watch", ID: "ask"})
			leave(a)
			// The session of the one that is gone loads at once.
			took := eventually(t, 6*time.Second, func() error {
				if r := c.do(order{Do: "acquire", ID: "sa"}); r.Err != "" {
					return errors.New(r.Err)
				}
				return nil
			})
			// The one that waits is told, on the new store.
			c.must(order{Do: "answer", ID: "ask"})
			if r := b.read(); r.Err != "" {
				t.Fatalf("the watch: %s", r.Err)
			}
			// The other one's lease is still its own, and a repeat is known.
			b.must(order{Do: "append", Lease: lb, Text: "1", Key: "k1"})
			b.must(order{Do: "append", Lease: lb, Expect: 1, Text: "2"})
			if r := c.do(order{Do: "acquire", ID: "sb"}); !r.is("conflict") {
				t.Fatalf("a session that is held: %+v", r)
			}
			if got := c.must(order{Do: "log", ID: "sb"}).Texts; fmt.Sprint(got) != "[1 2]" {
				t.Fatalf("the log is %q", got)
			}
			if b.do(order{Do: "leads"}).Leads == c.do(order{Do: "leads"}).Leads {
				t.Fatal("not exactly one of the two leads")
			}
			t.Logf("loaded after %v", took)
		})
	}
}

func TestTakeOverFromStoppedLeader(t *testing.T) {
	dir := t.TempDir()
	a, b := startChild(t, dir), startChild(t, dir)
	la := a.must(order{Do: "create", ID: "sa"}).Lease
	kept := a.must(order{Do: "create", ID: "kept"}).Lease
	a.must(order{Do: "append", Lease: la, Text: "1", Sync: true})
	lb := b.must(order{Do: "create", ID: "sb"}).Lease
	a.signal(syscall.SIGSTOP)
	// A newcomer need not wait until the others notice.
	start := time.Now()
	c := startChild(t, dir)
	eventually(t, 6*time.Second, func() error {
		if r := c.do(order{Do: "acquire", ID: "sa"}); r.Err != "" {
			return errors.New(r.Err)
		}
		return nil
	})
	took := time.Since(start)
	if took > 6*time.Second {
		t.Fatalf("the session of a stopped process loaded after %v", took)
	}
	b.must(order{Do: "append", Lease: lb, Text: "of b"})
	if got := c.must(order{Do: "log", ID: "sa"}).Texts; fmt.Sprint(got) != "[1]" {
		t.Fatalf("the log is %q", got)
	}
	// It comes back and finds the session gone, and the other one its own.
	a.signal(syscall.SIGCONT)
	if r := a.do(order{Do: "append", Lease: la, Expect: 1, Text: "late"}); !r.is("lost") && !r.is("fenced") {
		t.Fatalf("a process that was passed over wrote: %+v", r)
	}
	a.must(order{Do: "append", Lease: kept, Text: "still mine"})
	if got := c.must(order{Do: "log", ID: "sa"}).Texts; fmt.Sprint(got) != "[1]" {
		t.Fatalf("the log is %q", got)
	}
	if got := b.must(order{Do: "log", ID: "kept"}).Texts; fmt.Sprint(got) != "[still mine]" {
		t.Fatalf("the log is %q", got)
	}
	leads := 0
	for _, p := range []*child{a, b, c} {
		if p.do(order{Do: "leads"}).Leads {
			leads++
		}
	}
	if leads != 1 {
		t.Fatalf("%d processes lead", leads)
	}
	t.Logf("loaded %v after the process was stopped", took)
}

// TestMembersNoticeAStoppedLeader has nobody new who could find out.
func TestMembersNoticeAStoppedLeader(t *testing.T) {
	dir := t.TempDir()
	a, b := startChild(t, dir), startChild(t, dir)
	a.must(order{Do: "create", ID: "sa"})
	lb := b.must(order{Do: "create", ID: "sb"}).Lease
	a.signal(syscall.SIGSTOP)
	start := time.Now()
	b.must(order{Do: "append", Lease: lb, Text: "1", Sync: true})
	b.must(order{Do: "acquire", ID: "sa"})
	took := time.Since(start)
	if took > 6*time.Second {
		t.Fatalf("the session of a stopped process loaded after %v", took)
	}
	t.Logf("loaded %v after the process was stopped", took)
}

// TestKilledLeaderLosesNothing kills whoever leads while others write.
func TestKilledLeaderLosesNothing(t *testing.T) {
	const rounds, appends = 6, 60
	dir := t.TempDir()
	writer := startChild(t, dir)
	lease := writer.must(order{Do: "create", ID: "s"}).Lease
	var want []string
	for round := range rounds {
		// The next one to be killed leads: the writer joins it.
		victim := startChild(t, dir)
		if !victim.do(order{Do: "leads"}).Leads {
			writer.kill()
			writer = startChild(t, dir)
			eventually(t, 6*time.Second, func() error {
				r := writer.do(order{Do: "acquire", ID: "s"})
				if lease = r.Lease; r.Err != "" {
					return errors.New(r.Err)
				}
				return nil
			})
		}
		timer := time.AfterFunc(time.Duration(5+7*round)*time.Millisecond, func() { _ = victim.cmd.Process.Kill() })
		for i := range appends {
			text := fmt.Sprintf("%d.%d", round, i)
			r := writer.do(order{Do: "append", Lease: lease, Expect: session.Seq(len(want)), Text: text, Sync: i%3 == 0})
			if r.Err != "" {
				t.Fatalf("append %s: %s", text, r.Err)
			}
			want = append(want, text)
		}
		timer.Stop()
		victim.kill()
		if got := writer.must(order{Do: "log", ID: "s"}).Texts; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("round %d: the log is %q, want %q", round, got, want)
		}
	}
	t.Logf("%d leaders killed, %d records kept", rounds, len(want))
}

func TestStoppedMemberLosesItsSession(t *testing.T) {
	dir := t.TempDir()
	a, b := startChild(t, dir), startChild(t, dir)
	lb := b.must(order{Do: "create", ID: "sb"}).Lease
	b.signal(syscall.SIGSTOP)
	took := eventually(t, 6*time.Second, func() error {
		if r := a.do(order{Do: "acquire", ID: "sb"}); r.Err != "" {
			return errors.New(r.Err)
		}
		return nil
	})
	b.signal(syscall.SIGCONT)
	if r := b.do(order{Do: "append", Lease: lb, Text: "late"}); !r.is("lost") {
		t.Fatalf("a process that lost its session wrote: %+v", r)
	}
	t.Logf("loaded after %v", took)
}

func TestUnservedStore(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(context.Background(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	start := time.Now()
	_, err = OpenShared(context.Background(), Options{Dir: dir})
	took := time.Since(start)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("got %v", err)
	}
	if took > 2*time.Second {
		t.Fatalf("it took %v", took)
	}
	if _, err := Open(context.Background(), Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Fatalf("opened twice: %v", err)
	}
}

const memoryEnv = "GTH_PERSISTENCE_TEST_MEMORY"

// printMemory prints what an empty store that is open adds to this process,
// the code that is loaded for it included.
func printMemory(dir string) error {
	before := resident()
	s, err := OpenShared(context.Background(), Options{Dir: dir})
	if err != nil {
		return err
	}
	fmt.Println(resident() - before)
	return s.Close()
}

// resident is what of this process is in memory, without its garbage.
func resident() (n int64) {
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscanf(strings.Fields(string(b))[1], "%d", &n)
	}
	if err != nil {
		panic(err)
	}
	return n * int64(os.Getpagesize())
}

// TestEmptyStoreMemory bounds what a store that is open and idle costs a
// process, the serving of others included.
func TestEmptyStoreMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector multiplies memory")
	}
	const limit = 6 << 20
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), memoryEnv+"="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var added int64
	if _, err := fmt.Sscan(string(out), &added); err != nil {
		t.Fatal(err)
	}
	t.Logf("an empty store adds %d KiB", added>>10)
	if added <= 0 || added > limit {
		t.Fatalf("an empty store adds %d bytes, the limit is %d", added, limit)
	}
}

// TestPeers checks who may share: not a process that we started.
func TestPeers(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenShared(context.Background(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Through a shell in between, as an agent's command would be.
	cmd := exec.Command("sh", "-c", `"$0"; true`, exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "refuses") || !strings.Contains(string(out), "no access") {
		t.Fatalf("a child of this process was let in: %s", out)
	}
	if err := refuseChildren(os.Getppid()); err != nil {
		t.Fatalf("our parent is refused: %v", err)
	}
}
