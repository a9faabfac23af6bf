package acp

import (
	"context"

	"github.com/gth-server/gth-server/acp/internal/stream"
	"github.com/gth-server/gth-server/acp/internal/wire"
)

// initialize answers with the version that is served, whatever was asked:
// the client decides whether it can go on. It may come more than once.
func (c *conn) initialize(r stream.Request) stream.Work {
	var p wire.InitializeRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	if r.Notification() {
		return nil
	}
	c.initialized = true
	o := c.server.opts
	info := wire.Implementation{Name: o.Name, Version: o.Version}
	if o.Title != "" {
		info.Title = wire.Some(o.Title)
	}
	res := wire.InitializeResponse{
		ProtocolVersion: wire.Version,
		AgentCapabilities: wire.AgentCapabilities{
			LoadSession: true,
			SessionCapabilities: wire.SessionCapabilities{
				Close: wire.Some(wire.SessionCloseCapabilities{}), Delete: wire.Some(wire.SessionDeleteCapabilities{}),
				List: wire.Some(wire.SessionListCapabilities{}), Resume: wire.Some(wire.SessionResumeCapabilities{}),
			},
		},
		AgentInfo:   wire.Some(info),
		AuthMethods: []wire.AuthMethod{},
	}
	return func(context.Context) (any, error) { return res, nil }
}

// authenticate has nothing to offer: keys come from the environment.
func (c *conn) authenticate(r stream.Request) stream.Work {
	var p wire.AuthenticateRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	return fail(invalidParams("authentication method %q is not offered: set the model's key in the environment of the server and start it again", string(p.MethodID)))
}
