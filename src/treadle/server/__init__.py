"""The API: routes, who may use them, streams, and metrics."""
