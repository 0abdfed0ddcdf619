"""AccelForge's architectures, workloads and mappings."""
