"""What `import ptxbench` offers; docs/reference/api.md explains it."""
