"""What `import ptxbench` offers; docs/api.md explains it."""
