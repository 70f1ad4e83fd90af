"""The graph core: engine, scopes, syncs, freezing, layers."""
