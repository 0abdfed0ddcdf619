"""DLFusion's fused blocks: the model of their time, the strategies that choose them, the proven best choice."""
