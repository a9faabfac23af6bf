// Package openai makes models of servers that speak OpenAI's chat
// completions.
//
// Guarantees: every answer of the server that is not a success becomes a
// *provider.Error with the server's wish when to come back; redirects are
// not followed, so that neither key nor conversation reaches another host;
// a server that falls silent fails the call. It repeats nothing and makes
// no request before the model is used.
package openai

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	einoopenai "github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/gth-server/gth-server/runner/internal/provider"
)

const (
	defaultBaseURL = "https://api.openai.com/v1"
	defaultSilence = 10 * time.Minute
)

// Config describes a model. Name is required.
type Config struct {
	Name        string
	BaseURL     string // empty is OpenAI's own
	APIKey      string // required for OpenAI's own server only
	MaxTokens   int
	Temperature *float32
	Timeout     time.Duration // longest silence, 0 is 10 min
}

// Model is a chat model that owns its connections. Safe for concurrent use.
type Model struct {
	model.ToolCallingChatModel
	transport *http.Transport
}

// New returns the model of c, or an error that says what is wrong with c.
func New(ctx context.Context, c Config) (*Model, error) {
	if c.Name == "" {
		return nil, fmt.Errorf("model openai: no model name is set: use --model openai:NAME")
	}
	base, err := baseURL(c.BaseURL)
	if err != nil {
		return nil, err
	}
	if c.APIKey == "" && base == defaultBaseURL {
		return nil, fmt.Errorf("model openai:%s: %w: set OPENAI_API_KEY, or the variable that model.apiKeyEnv names", c.Name, provider.ErrNoKey)
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultSilence
	}
	transport := newTransport()
	conf := &einoopenai.ChatModelConfig{
		APIKey: c.APIKey, BaseURL: base, Model: c.Name, Temperature: c.Temperature,
		HTTPClient: &http.Client{Transport: &caller{next: transport, silence: c.Timeout}},
	}
	if c.MaxTokens > 0 {
		conf.MaxTokens = &c.MaxTokens
	}
	m, err := einoopenai.NewChatModel(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("model openai:%s: %w", c.Name, err)
	}
	return &Model{ToolCallingChatModel: m, transport: transport}, nil
}

// WithTools returns the model with tools bound; connections are shared.
func (m *Model) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	bound, err := m.ToolCallingChatModel.WithTools(tools)
	if err != nil {
		return nil, fmt.Errorf("bind tools: %w", err)
	}
	return &Model{ToolCallingChatModel: bound, transport: m.transport}, nil
}

// Close drops idle connections.
func (m *Model) Close() error {
	m.transport.CloseIdleConnections()
	return nil
}

// baseURL checks and cleans a base URL; people paste the whole endpoint.
func baseURL(s string) (string, error) {
	if s == "" {
		return defaultBaseURL, nil
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("model base URL %q is not usable: give one like http://127.0.0.1:8080/v1", s)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("model base URL for host %q has a user, query or fragment: leave them out", u.Host)
	}
	s = strings.TrimRight(s, "/")
	s = strings.TrimSuffix(s, "/chat/completions")
	return strings.TrimRight(s, "/"), nil
}
