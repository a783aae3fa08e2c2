"""How to start an engine: only what vLLM knows."""

from dataclasses import dataclass


@dataclass
class AsyncEngineArgs:
    model: str
    dtype: str = "auto"
    seed: int = 0
    tensor_parallel_size: int = 1
    distributed_executor_backend: str | None = None
    enable_prefix_caching: bool | None = None
    generation_config: str = "auto"
    max_model_len: int | None = None
    gpu_memory_utilization: float = 0.9
    quantization: str | None = None
    revision: str | None = None

    def create_engine_config(self):
        if self.model.startswith("no/"):
            raise OSError(f"{self.model} is no model")
        return self
