package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sourcegraph/jsonrpc2"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every request with its method and parameters.
func echo(r Request) Work {
	return func(context.Context) (any, error) {
		switch r.Method {
		case "fail":
			return nil, errors.New("it broke")
		case "code":
			return nil, &jsonrpc2.Error{Code: -32002, Message: "not there"}
		case "panic":
			panic("boom")
		}
		return map[string]any{"method": r.Method, "params": r.Params}, nil
	}
}

// record is a writer that keeps what each Write got.
type record struct {
	mu     sync.Mutex
	writes []string
}

func (w *record) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, string(b))
	return len(b), nil
}

func (w *record) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.writes...)
}

// exchange plays in to a connection until its end and returns the writes.
func exchange(t testing.TB, in string, o Options) []string {
	t.Helper()
	out := &record{}
	c := New(context.Background(), strings.NewReader(in), out, o)
	<-c.Ended()
	c.Stop()
	if err := c.Wait(context.Background()); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	c.Close(nil)
	return out.lines()
}

var lineCases = []struct {
	name, in string
	want     []string // ids and codes or results, in any order of work
}{
	{"request", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"<b>&"}}`, []string{`{"jsonrpc":"2.0","id":1,"result":{"method":"m","params":{"a":"<b>&"}}}`}},
	{"string id", `{"jsonrpc":"2.0","id":"a\"<b>","method":"m"}`, []string{`{"jsonrpc":"2.0","id":"a\"<b>","result":{"method":"m","params":null}}`}},
	{"escaped id", `{"jsonrpc":"2.0","id":"\u0041\u003c","method":"m"}`, []string{`{"jsonrpc":"2.0","id":"\u0041\u003c","result":{"method":"m","params":null}}`}},
	{"negative id", `{"jsonrpc":"2.0","id":-7,"method":"m"}`, []string{`{"jsonrpc":"2.0","id":-7,"result":{"method":"m","params":null}}`}},
	{"large id", `{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"m"}`, []string{`{"jsonrpc":"2.0","id":123456789012345678901234567890,"result":{"method":"m","params":null}}`}},
	{"empty string id", `{"jsonrpc":"2.0","id":"","method":"m"}`, []string{`{"jsonrpc":"2.0","id":"","result":{"method":"m","params":null}}`}},
	{"null id", `{"jsonrpc":"2.0","id":null,"method":"m"}`, []string{`{"jsonrpc":"2.0","id":null,"result":{"method":"m","params":null}}`}},
	{"extra members", `{"type":"request","jsonrpc":"2.0","id":1,"method":"m"}`, []string{`{"jsonrpc":"2.0","id":1,"result":{"method":"m","params":null}}`}},
	{"notification", `{"jsonrpc":"2.0","method":"m"}`, nil},
	{"plain error", `{"jsonrpc":"2.0","id":1,"method":"fail"}`, []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"it broke"}}`}},
	{"coded error", `{"jsonrpc":"2.0","id":1,"method":"code"}`, []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"not there"}}`}},
	{"panic", `{"jsonrpc":"2.0","id":1,"method":"panic"}`, []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"a fault of the server in panic: see its log"}}`}},
	{"no json", `{"jsonrpc":`, []string{"-32700 null"}},
	{"not utf-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", []string{"-32700 null"}},
	{"bare text", `hello`, []string{"-32700 null"}},
	{"two values", `{} {}`, []string{"-32700 null"}},
	{"string", `"hello"`, []string{"-32600 null"}},
	{"number", `5`, []string{"-32600 null"}},
	{"null", `null`, []string{"-32600 null"}},
	{"empty batch", `[]`, []string{"-32600 null"}},
	{"batch", `[{"jsonrpc":"2.0","id":1,"method":"m"}]`, []string{"-32600 null"}},
	{"only version", `{"jsonrpc":"2.0"}`, []string{"-32600 null"}},
	{"no version", `{"id":3,"method":"m"}`, []string{"-32600 3"}},
	{"old version", `{"jsonrpc":"1.0","id":3,"method":"m"}`, []string{"-32600 3"}},
	{"no method", `{"jsonrpc":"2.0","id":"x"}`, []string{`-32600 "x"`}},
	{"method no string", `{"jsonrpc":"2.0","id":3,"method":5}`, []string{"-32600 3"}},
	{"empty method", `{"jsonrpc":"2.0","id":3,"method":""}`, []string{"-32600 3"}},
	{"fractional id", `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, []string{"-32600 null"}},
	{"exponent id", `{"jsonrpc":"2.0","id":1e3,"method":"m"}`, []string{"-32600 null"}},
	{"boolean id", `{"jsonrpc":"2.0","id":true,"method":"m"}`, []string{"-32600 null"}},
	{"object id", `{"jsonrpc":"2.0","id":{},"method":"m"}`, []string{"-32600 null"}},
	{"scalar params", `{"jsonrpc":"2.0","id":1,"method":"m","params":5}`, []string{"-32600 1"}},
	{"method and result", `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, []string{"-32600 1"}},
	{"answer to nothing", `{"jsonrpc":"2.0","id":99,"result":{}}`, nil},
	{"answer with odd id", `{"jsonrpc":"2.0","id":"q","result":{}}`, nil},
	{"answer with bad error", `{"jsonrpc":"2.0","id":99,"error":"no"}`, nil},
	{"empty lines", "\n\r\n  \t\r\n", nil},
	{"crlf", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\r\n", []string{`{"jsonrpc":"2.0","id":1,"result":{"method":"m","params":null}}`}},
	{"deep", strings.Repeat("[", 20000) + strings.Repeat("]", 20000), []string{"-32700 null"}},
	{"cancel of nothing", `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":5}}`, nil},
	{"cancel without params", `{"jsonrpc":"2.0","method":"$/cancel_request"}`, nil},
	{"cancel as request", `{"jsonrpc":"2.0","id":4,"method":"$/cancel_request"}`, []string{`{"jsonrpc":"2.0","id":4,"result":{}}`}},
}

// brief shortens refusals to code and id.
func brief(line string) string {
	var m struct {
		ID    json.RawMessage
		Error *jsonrpc2.Error
	}
	if json.Unmarshal([]byte(line), &m) == nil && m.Error != nil && (m.Error.Code == -32700 || m.Error.Code == -32600) {
		return fmt.Sprintf("%d %s", m.Error.Code, m.ID)
	}
	return strings.TrimSuffix(line, "\n")
}

func TestLines(t *testing.T) {
	const after = `{"jsonrpc":"2.0","id":"after","method":"m"}`
	for _, c := range lineCases {
		t.Run(c.name, func(t *testing.T) {
			alive := false
			var got []string
			for _, w := range exchange(t, c.in+"\n"+after, Options{Accept: echo}) {
				if strings.Count(w, "\n") != 1 || !strings.HasSuffix(w, "\n") {
					t.Errorf("a Write that is not one line: %q", w)
				}
				if strings.Contains(w, `"id":"after"`) {
					alive = true
					continue
				}
				got = append(got, brief(w))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("answers (-want +got):\n%s", d)
			}
			if !alive {
				t.Error("the request after it was not answered")
			}
		})
	}
	t.Logf("%d lines", len(lineCases))
}

func TestLongLines(t *testing.T) {
	req := func(n int) string {
		s := `{"jsonrpc":"2.0","id":1,"method":"m","params":{"p":""}}`
		return s[:len(s)-3] + strings.Repeat("x", n-len(s)) + s[len(s)-3:]
	}
	const limit = 200_000
	for _, c := range []struct {
		n    int
		want string
	}{{limit, "result"}, {limit + 1, "-32600"}, {limit + 2, "-32600"}, {5 * limit, "-32600"}} {
		for _, end := range []string{"\n", ""} {
			got := exchange(t, req(c.n)+end, Options{Accept: echo, MaxLine: limit})
			if len(got) != 1 || !strings.Contains(got[0][:60], c.want) {
				t.Errorf("line of %d bytes, end %q: got %.80q, want %s", c.n, end, got, c.want)
			}
		}
	}
	got := exchange(t, req(2*limit)+"\n"+req(100)+"\n", Options{Accept: echo, MaxLine: limit})
	if len(got) != 2 {
		t.Errorf("after a long line: got %d answers, want 2", len(got))
	}
}

func TestAppendPlain(t *testing.T) {
	for in, want := range map[string]string{
		`"\u003c\u003e\u0026"`:        `"<>&"`,
		`"\\u003c"`:                   `"\\u003c"`,
		`"\\\u003c\n\u2028"`:          `"\\<\n\u2028"`,
		`"no escapes"`:                `"no escapes"`,
		`"\""`:                        `"\""`,
		`"` + strings.Repeat(`\\`, 9): `"` + strings.Repeat(`\\`, 9),
		`"\u003d"`:                    `"\u003d"`,
	} {
		if got := string(appendPlain(nil, []byte(in))); got != want {
			t.Errorf("appendPlain(%s) = %s, want %s", in, got, want)
		}
	}
}

// client is the other end of a connection for tests.
type client struct {
	*Conn
	in  *io.PipeWriter
	out *json.Decoder
	end *io.PipeReader
}

func connect(o Options) *client {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	return &client{New(context.Background(), inR, outW, o), inW, json.NewDecoder(outR), outR}
}

func (c *client) send(format string, args ...any) { fmt.Fprintf(c.in, format+"\n", args...) }

func (c *client) recv(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := c.out.Decode(&m); err != nil {
		t.Fatalf("receive: %v", err)
	}
	return m
}

func (c *client) finish() {
	c.in.Close()
	<-c.Ended()
	c.Close(errors.New("test over"))
	c.end.Close()
}

func TestOrderAndWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string // written on the reading goroutine only
		c := connect(Options{Accept: func(r Request) Work {
			order = append(order, r.Method)
			return func(ctx context.Context) (any, error) {
				<-ctx.Done()
				return context.Cause(ctx).Error(), nil
			}
		}})
		const n = 1000
		go func() {
			for i := range n {
				c.send(`{"jsonrpc":"2.0","id":%d,"method":"m%d"}`, i, i)
				c.send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`, i)
			}
		}()
		for range n {
			if got := c.recv(t)["result"]; got != ErrRequestCancelled.Error() {
				t.Fatalf("answer %v", got)
			}
		}
		for i, m := range order {
			if m != fmt.Sprintf("m%d", i) {
				t.Fatalf("message %d was %s", i, m)
			}
		}
		t.Logf("%d requests in order, each withdrawn at once", len(order))
		c.finish()
	})
}

func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(Options{Accept: echo})
		defer c.finish()
		type answer struct {
			res map[string]string
			err error
		}
		call := func(ctx context.Context) chan answer {
			ch := make(chan answer, 1)
			go func() {
				var a answer
				a.err = c.Call(ctx, "ask", map[string]string{"q": "<?>"}, &a.res)
				ch <- a
			}()
			return ch
		}
		ch := call(context.Background())
		m := c.recv(t)
		if m["method"] != "ask" || m["id"] != 1.0 {
			t.Fatalf("sent %v", m)
		}
		c.send(`{"jsonrpc":"2.0","id":1,"result":{"a":"yes"}}`)
		if a := <-ch; a.err != nil || a.res["a"] != "yes" {
			t.Errorf("answer %v", a)
		}
		for _, bad := range []string{`"no"`, `{"code":-1,"message":"no"}`, `{}`, `5`} {
			ch = call(context.Background())
			c.send(`{"jsonrpc":"2.0","id":%v,"error":%s}`, c.recv(t)["id"], bad)
			if a := <-ch; a.err == nil {
				t.Errorf("error %s: no error", bad)
			}
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		ch = call(ctx)
		id := c.recv(t)["id"]
		cause := errors.New("nobody waits")
		cancel(cause)
		m = c.recv(t)
		if m["method"] != methodCancelRequest || m["params"].(map[string]any)["requestId"] != id {
			t.Errorf("withdrawal %v of %v", m, id)
		}
		if a := <-ch; !errors.Is(a.err, cause) {
			t.Errorf("withdrawn call: %v", a.err)
		}
		ch = call(context.Background())
		c.recv(t)
		c.Close(nil)
		if a := <-ch; !errors.Is(a.err, jsonrpc2.ErrClosed) {
			t.Errorf("call on a closed connection: %v", a.err)
		}
	})
}

// A peer that reads nothing must not keep the connection from closing.
func TestBlockedWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(Options{Accept: echo})
		sent := make(chan error, 1)
		go func() { sent <- c.Notify("n", "x") }()
		go c.send(`[]`)
		synctest.Wait()
		c.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := c.Wait(ctx); err != nil {
			t.Errorf("Wait: %v", err)
		}
		c.Close(nil)
		if err := <-sent; !errors.Is(err, jsonrpc2.ErrClosed) {
			t.Errorf("Notify: %v", err)
		}
		c.in.Close()
		c.end.Close()
	})
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteFailure(t *testing.T) {
	in, w := io.Pipe()
	c := New(context.Background(), in, brokenWriter{}, Options{Accept: echo})
	if err := c.Notify("n", nil); err == nil {
		t.Error("no error from a broken writer")
	}
	<-c.Ended()
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "broken pipe") {
		t.Errorf("Err = %v", err)
	}
	w.Close()
	c.Close(nil)
}

func TestManyRequests(t *testing.T) {
	release := make(chan struct{})
	var in bytes.Buffer
	const extra = 10
	for i := range maxInFlight + extra {
		fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"m"}`+"\n", i)
	}
	out := &record{}
	c := New(context.Background(), &in, out, Options{Accept: func(Request) Work {
		return func(context.Context) (any, error) { <-release; return nil, nil }
	}})
	<-c.Ended()
	if got := len(out.lines()); got != extra {
		t.Errorf("%d refused, want %d", got, extra)
	}
	close(release)
	c.Stop()
	if err := c.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.Close(nil)
	if got := len(out.lines()); got != maxInFlight+extra {
		t.Errorf("%d answers, want %d", got, maxInFlight+extra)
	}
}

func TestAcceptPanic(t *testing.T) {
	got := exchange(t, `{"jsonrpc":"2.0","id":1,"method":"m"}`, Options{Accept: func(Request) Work { panic("boom") }})
	if len(got) != 1 || !strings.Contains(got[0], "-32603") {
		t.Errorf("got %q", got)
	}
}

func FuzzStream(f *testing.F) {
	for _, c := range lineCases {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const after = `{"jsonrpc":"2.0","id":"after-all","method":"m"}`
		alive := false
		for _, w := range exchange(t, string(in)+"\n"+after+"\n", Options{Accept: echo, MaxLine: 4096}) {
			if !json.Valid([]byte(w)) || strings.Count(w, "\n") != 1 || !strings.HasSuffix(w, "\n") {
				t.Fatalf("not one message: %q", w)
			}
			alive = alive || strings.Contains(w, `"id":"after-all"`)
		}
		if !alive {
			t.Fatal("the connection died")
		}
	})
}
