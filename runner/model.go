package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/cloudwego/eino/components/model"

	"github.com/gth-server/gth-server/runner/internal/provider"
	"github.com/gth-server/gth-server/runner/internal/provider/openai"
	"github.com/gth-server/gth-server/runner/internal/provider/scripted"
)

// ErrNoKey is returned by NewModel when the provider needs a key and none
// is set.
var ErrNoKey = provider.ErrNoKey

// ModelConfig chooses and configures a model.
type ModelConfig struct {
	Provider    string        // openai or scripted
	Name        string        // of the model; not used by scripted
	BaseURL     string        // openai: any compatible server, empty is api.openai.com
	APIKey      string        // may be empty for a server that needs none
	Script      string        // scripted: path of the YAML file, or the YAML itself when it has a line break
	MaxTokens   int           // of one answer, 0 leaves it to the provider
	Temperature *float32      // nil leaves it to the provider
	Timeout     time.Duration // longest silence of the server, 0 is 10 min
}

// NewModel returns the model that c describes. It contacts nobody. A model
// that implements io.Closer holds connections; close it at the end of the
// process. It is safe for concurrent use by many sessions.
func NewModel(ctx context.Context, c ModelConfig) (model.ToolCallingChatModel, error) {
	switch c.Provider {
	case "openai":
		return openai.New(ctx, openai.Config{
			Name: c.Name, BaseURL: c.BaseURL, APIKey: c.APIKey,
			MaxTokens: c.MaxTokens, Temperature: c.Temperature, Timeout: c.Timeout,
		})
	case "scripted":
		return scripted.Open(c.Script)
	}
	return nil, fmt.Errorf("model provider %q is unknown: use openai or scripted", c.Provider)
}
