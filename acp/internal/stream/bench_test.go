package stream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
)

// BenchmarkRoundTrip sends a request and reads its answer over pipes.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{100, 4 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			c := New(context.Background(), inR, outW, Options{Accept: echo})
			line := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"p":%q}}`+"\n", strings.Repeat("x", size))
			r := bufio.NewReaderSize(outR, 2<<20)
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := io.WriteString(inW, line); err != nil {
					b.Fatal(err)
				}
				if _, err := r.ReadSlice('\n'); err != nil {
					b.Fatal(err)
				}
			}
			inW.Close()
			<-c.Ended()
			c.Close(nil)
			outR.Close()
		})
	}
}

// BenchmarkNotify writes notifications and drops them.
func BenchmarkNotify(b *testing.B) {
	inR, inW := io.Pipe()
	c := New(context.Background(), inR, io.Discard, Options{Accept: echo})
	params := map[string]string{"text": strings.Repeat("x", 100)}
	for b.Loop() {
		if err := c.Notify("session/update", params); err != nil {
			b.Fatal(err)
		}
	}
	inW.Close()
	<-c.Ended()
	c.Close(nil)
}
