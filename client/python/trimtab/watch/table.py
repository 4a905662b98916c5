"""Which function is called when a module has been imported: module name -> (module of ours, its function).

The function is called once with the module, right after its code has run, in the importing thread. It must return at
once. What it raises is said once and passed over. Our module is imported only then.
"""
_WATCH = "trimtab.watch."

MODULES = {
    "torch": (_WATCH + "compilation", "torch_loaded"),
    "torch.autograd": (_WATCH + "backward", "autograd_loaded"),
    "torch.optim.optimizer": (_WATCH + "optimizers", "optimizer_loaded"),
    "torch.cuda.amp.grad_scaler": (_WATCH + "optimizers", "scaler_loaded"),
    "torch.amp.grad_scaler": (_WATCH + "optimizers", "scaler_loaded"),
    "torch.nn.utils.clip_grad": (_WATCH + "optimizers", "clip_loaded"),
    "torch.utils.data.dataloader": (_WATCH + "loaders", "dataloader_loaded"),
    "torch.utils.checkpoint": (_WATCH + "recomputation", "checkpoint_loaded"),
    "torch.distributed": (_WATCH + "collectives", "distributed_loaded"),
    "torch.serialization": (_WATCH + "asides", "serialization_loaded"),
    "torch.distributed.checkpoint.state_dict_saver": (_WATCH + "asides", "saver_loaded"),
    "torch.distributed.checkpoint.state_dict": (_WATCH + "asides", "states_loaded"),
    "torch.distributed.pipelining.schedules": (_WATCH + "pipelining", "schedules_loaded"),
    "safetensors.torch": (_WATCH + "asides", "safetensors_loaded"),
    "torch._dynamo.trace_rules": (_WATCH + "compilation", "rules_loaded"),
    "torch._dynamo.skipfiles": (_WATCH + "compilation", "rules_loaded"),
    "torch.export": (_WATCH + "compilation", "export_loaded"),
    "torch.onnx": (_WATCH + "compilation", "export_loaded"),
    "deepspeed.runtime.activation_checkpointing.checkpointing": (_WATCH + "recomputation", "function_loaded"),
    "deepspeed.runtime.engine": (_WATCH + "deepspeed", "engine_loaded"),
    "deepspeed.runtime.pipe.engine": (_WATCH + "deepspeed", "pipeline_loaded"),
    "megatron.core.tensor_parallel.random": (_WATCH + "recomputation", "function_loaded"),
    "megatron.core.pipeline_parallel.schedules": (_WATCH + "backward", "schedules_loaded"),
    "megatron.core.pipeline_parallel.utils": (_WATCH + "backward", "nodes_loaded"),
    "megatron.core.pipeline_parallel.p2p_communication": (_WATCH + "collectives", "stages_loaded"),
    "megatron.training.training": (_WATCH + "megatron", "training_loaded"),
    "megatron.training": (_WATCH + "megatron", "training_loaded"),
    "torchtitan.components.optimizer.utils": (_WATCH + "asides", "states_loaded"),
    "torchtitan.trainer": (_WATCH + "torchtitan", "trainer_loaded"),
    "torchtitan.components.metrics": (_WATCH + "torchtitan", "metrics_loaded"),
    "torchtitan.components.validate": (_WATCH + "torchtitan", "validate_loaded"),
    "transformers.trainer_callback": (_WATCH + "transformers", "callbacks_loaded"),
    "transformers.trainer": (_WATCH + "transformers", "trainer_loaded"),
    "accelerate.accelerator": (_WATCH + "accelerate", "accelerator_loaded"),
    "accelerate.data_loader": (_WATCH + "accelerate", "loaders_loaded"),
    **{f"{package}.{name}": (_WATCH + "lightning", function)
       for package in ("lightning.pytorch", "pytorch_lightning")
       for name, function in (("loops.optimization.automatic", "automatic_loaded"), ("loops.optimization.manual", "manual_loaded"),
                              ("loops.evaluation_loop", "evaluation_loaded"), ("trainer.trainer", "trainer_loaded"))},
}
