"""How fast a job runs under each execution plan (Rubick's model), and how that is learned."""
