"""What goes over the API, as plain types: the server's answers, the client's requests."""
