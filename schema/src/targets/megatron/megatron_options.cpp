#include "targets/megatron/megatron_options.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "schema/plan_import.hpp"

namespace trimtab {

namespace {

// What a plan says, too: of older releases, and beside megatron_plan_options().
constexpr const char* kPlan = R"(
activations-checkpoint-method batch-size checkpoint-activations checkpoint-num-layers decrease-batch-size-if-needed
distribute-checkpointed-activations model-parallel-size step-batch-size-schedule
virtual-pipeline-model-parallel-size)";

// How long, how fast and from which numbers it learns, and what it is tested on.
constexpr const char* kTraining = R"(
adam-beta1 adam-beta2 adam-eps apply-wd-to-qk-layernorm check-for-large-grads
check-weight-hash-across-dp-replicas-interval clip-grad data-parallel-random-init dataloader-type decoupled-lr
decoupled-min-lr disable-manual-gc-eval dump-param-to-param-group-map end-weight-decay eval-global-batch-size
eval-interval eval-iters eval-micro-batch-size exit-duration-in-mins exit-interval exit-signal exit-signal-handler
exit-signal-handler-for-dataloader exit-signal-handler-for-training full-validation gpu-sniff-test-interval
hysteresis init-method-xavier-uniform initial-loss-scale iterations-to-skip loss-scale loss-scale-window lr
lr-decay-iters lr-decay-ratio lr-decay-samples lr-decay-style lr-warmup-fraction lr-warmup-init lr-warmup-iters
lr-warmup-samples lr-wsd-decay-iters lr-wsd-decay-samples lr-wsd-decay-style manual-gc manual-gc-interval
min-loss-scale min-lr multiple-validation-sets no-check-for-nan-in-loss-and-grad no-manual-gc-eval
no-weight-decay-cond-type override-opt-param-scheduler override-opt_param-scheduler result-rejected-tracker-filename
rope-type seed sft sft-tokenizer-prompt-format skip-train start-eval-at-iter start-weight-decay te-rng-tracker
test-mode train-iters train-samples train-sync-interval use-checkpoint-opt-param-scheduler
use-checkpoint-opt_param-scheduler use-mcore-models validation-set-names warmup weight-decay weight-decay-incr-style)";

// Of the model: parameters, memory and times stay.
constexpr const char* kShape = R"(
activation-func-clamp-value apply-layernorm-1p apply-query-key-layer-scaling
apply-residual-connection-post-layernorm calculate-per-token-loss config-logger-dir embedding-init-method-std
flash-decode glu-linear-offset init-method-std init-model-with-meta-device mrope-section mup-attn-scale-power
mup-base-head-dim mup-base-hidden-size mup-embedding-mult mup-output-mult mup-width-mult nccl-all-reduce-for-prefill
no-initialization no-rope-freq no-yarn-correction-range-round-to-int norm-epsilon onnx-safe openai-gelu
relative-attention-max-distance relative-attention-num-buckets rope-scaling-factor rotary-base rotary-embedding-dim
rotary-interleaved rotary-percent rotary-seq-len-interpolation-factor squared-relu use-cpu-initialization use-mup
use-rope-scaling yarn-beta-fast yarn-beta-slow yarn-correction-range-round-to-int
yarn-original-max-position-embeddings)";

// Data, tokenizers and checkpoints.
constexpr const char* kFiles = R"(
allow-ambiguous-pad-tokens async-ckpt-cpu-priority async-ckpt-io-priority async-ckpt-use-cpu-shm async-save
async-strategy auto-detect-ckpt-format chat-template ckpt-assume-constant-structure ckpt-convert-format
ckpt-convert-save ckpt-convert-update-legacy-dist-opt-format ckpt-drop-redundant-extra-state ckpt-format
ckpt-fully-parallel-load ckpt-fully-parallel-load-exchange-algo ckpt-fully-parallel-load-per-rank-objects
ckpt-fully-parallel-load-process-group ckpt-fully-parallel-save ckpt-fully-parallel-save-process-group
ckpt-load-validate-sharding-integrity ckpt-pg-tensors-cache-create ckpt-pg-tensors-cache-path ckpt-step data-args-path
data-cache-path data-impl data-path data-path2 dataloader-defer-npy-index-mmap dataloader-fast-cache-load
dataloader-inter-document-masking dataset-impl disable-ckpt-load-validate-sharding-integrity disable-msc
disable-save-tokenizer-assets disable-strict-fsdp-dtensor-load
disable-tokenizer-sentencepiece-ignore-extra-whitespaces disable-use-tokenizer-model-from-checkpoint-args
dist-ckpt-format dist-ckpt-optim-fully-reshardable dist-ckpt-save-pre-mcore-014 dist-ckpt-strictness dist-ckpt-workers
distrib-optim-fully-reshardable-mem-efficient enable-msc eod-mask-loss exit-on-missing-checkpoint
export-te-mcore-model finetune finetune-data-files finetune-data-split finetune-hf-dataset load
load-main-params-from-ckpt mask-prob mid-level-dataset-surplus mock-data no-ckpt-fully-parallel-save
no-ckpt-load-validate-sharding-integrity no-create-attention-mask-in-dataloader no-load-optim no-load-rng
no-mmap-bin-files no-save-optim no-save-rng no-save-tokenizer-assets no-strict-fsdp-dtensor-load
no-tokenizer-sentencepiece-ignore-extra-whitespaces no-use-tokenizer-model-from-checkpoint-args
non-persistent-ckpt-type non-persistent-global-ckpt-dir non-persistent-local-ckpt-algo non-persistent-local-ckpt-dir
non-persistent-save-interval null-tokenizer-eod-id null-tokenizer-pad-id num-dataset-builder-threads num-workers
object-storage-cache-path override-ckpt-iteration per-dataset-sequences-path per-split-data-args-path
persistent-save-interval phase-transition-iterations pretrained-checkpoint replication replication-factor
replication-jump reset-attention-mask reset-position-ids sample-rate save save-activations-interval
save-dgrads-interval save-interval save-params-interval save-retain-interval save-tokens-per-expert-interval
save-wgrads-interval short-seq-prob split test-data-path tiktoken-num-special-tokens tiktoken-pattern
tokenizer-hf-include-special-tokens tokenizer-hf-no-include-special-tokens tokenizer-hf-no-use-fast tokenizer-metadata
tokenizer-model tokenizer-sentencepiece-legacy tokenizer-special-tokens train-data-exact-num-epochs train-data-path
trust-remote-code use-checkpoint-lr-scheduler use-dist-ckpt use-gigatoken use-persistent-ckpt-worker valid-data-path
verify-integrity vocab-file)";

// What is logged, watched, tried again and served.
constexpr const char* kWatching = R"(
adlr-autoresume adlr-autoresume-interval app-tag-run-name app-tag-run-version calc-ft-timeouts check-for-spiky-loss
decode-only-cuda-graphs disable-log-loss-scale-to-tensorboard disable-straggler-on-startup enable-chunked-prefill
enable-ft-package enable-one-logger error-injection-rate error-injection-type ft-num-warmup-iters
log-batch-size-to-tensorboard log-device-memory-used log-energy log-interval log-learning-rate-to-tensorboard
log-max-attention-logit log-memory-interval log-memory-to-tensorboard log-num-zeros-in-grad log-params-norm
log-progress log-straggler log-throughput log-timers-to-tensorboard log-validation-ppl-to-tensorboard
log-world-size-to-tensorboard logging-level max-tokens-to-oom memory-snapshot-path no-barrier-with-level-1-timing
no-log-learnig-rate-to-tensorboard no-log-loss-scale-to-tensorboard no-one-logger num-speculative-tokens nvtx-ranges
profile profile-ranks profile-step-end profile-step-start record-memory-history record-shapes
run-workload-inspector-server straggler-ctrlr-port straggler-minmax-count timing-log-level timing-log-option
use-legacy-static-engine use-pytorch-profiler use-rl use-same-sampling-seed-across-dp-ranks)";

// What text is generated or judged, of programs that share the parser: a training run has none of it.
constexpr const char* kGenerating = R"(
answer-file api-prompt async-mode batch-boundaries coordinator-host coordinator-port coordinator-schedule-output-path
drain-between-batches genfile greedy guess-file incoming-requests-duration incoming-requests-per-sec
incoming-requests-per-step max-batch-size no-record-throughput num-prompt-examples num-samples num-tokens-from-file
num-tokens-to-generate num-tokens-to-prompt out-seq-length output-every-n-results output-path output-request-events
prompt-file prompt-file-num-truncate prompt-type prompts return-log-probs sample-input-file sample-output-file
skip-prompt-log-probs stop-words suspend-resume-interval suspend-timeout task temperature termination-id
throughput-check-only top-n-logprobs top_k top_p use-coordinator use-flashinfer-fused-rope)";

// How processes meet.
constexpr const char* kProcesses = R"(
disable-gloo-process-groups distributed-backend distributed-timeout-minutes distributed-timeout-seconds-after-init
enable-experimental fake-process-group lazy-mpu-init local-rank local_rank use-gpu-initialization)";

// Of what begins with another option, which is refused or read: experts, latent attention, hybrid layers, other
// numbers.
constexpr const char* kOfOthers = R"(
cache-mla-latents delay-offload-until-cuda-graph disable-mamba-mem-eff-path ep-overlap-early-attn-memory-release
expert-model-parallel-size expert-tensor-parallel-num-weight-shards expert-tensor-parallel-size
export-moe-apply-probs-on-input fine-grained-offloading-max-inflight-offloads fp8-amax-compute-algo
fp8-amax-history-len fp8-interval fp8-margin high-priority-a2a-comm-stream kv-lora-rank min-offloaded-tensor-size
mla-down-proj-fusion mlp-chunks-for-prefill mlp-chunks-for-training mscale mscale-all-dim offload-modules
overlap-dispatch-backward-with-experts-wgrad overlap-moe-expert-parallel-comm q-lora-rank qk-head-dim
qk-pos-emb-head-dim refit-method rotary-scaling-factor use-grouped-gemm-for-dense-mlp
use-grouped-gemm-for-shared-expert v-head-dim window-attn-skip-freq)";

// How it runs: times change, and the memory a little.
constexpr const char* kHowItRuns = R"(
DDP-impl async-tensor-model-parallel-allreduce attention-softmax-in-fp32 batch-invariant-backend batch-invariant-mode
cp-comm-type create-all-gather-group cross-entropy-fusion-impl cross-entropy-loss-fusion cuda-graph-impl
cuda-graph-modules cuda-graph-scope cuda-graph-warmup-steps ddp-average-in-collective ddp-impl
ddp-pad-buckets-for-high-nccl-busbw ddp-reduce-scatter-with-fp32-accumulation defer-embedding-wgrad-compute
delay-grad-reduce delay-wgrad-compute deterministic-mode disable-align-grad-reduce
disable-bf16-reduced-precision-matmul disable-clone-scatter-output-in-embedding disable-jit-fuser
disable-symmetric-registration disable-tp-comm-bulk-dgrad disable-tp-comm-bulk-wgrad disable-tp-comm-overlap-ag
disable-tp-comm-overlap-rs disable-tp-comm-split-ag disable-tp-comm-split-rs empty-unused-memory-level
enable-cuda-graph enable-full-sharding-in-hsdp external-cuda-graph flash-attention-version fp16-lm-cross-entropy
fp4-param-gather fp8-param-gather fsdp-db-use-persist-buf-on-alloc-fail fsdp-double-buffer fsdp-manual-registration
fused-residual-rmsnorm hierarchical-context-parallel-sizes high-priority-stream-groups keep-fp8-transpose-cache
megatron-fsdp-enable-fine-grained-param-gather megatron-fsdp-grad-comm-dtype megatron-fsdp-main-grads-dtype
megatron-fsdp-main-params-dtype megatron-fsdp-max-pool-double-buffer megatron-fsdp-version
microbatch-group-size-per-virtual-pipeline-stage nccl-communicator-config-path no-align-grad-reduce
no-align-param-gather no-async-tensor-model-parallel-allreduce no-bias-dropout-fusion no-bias-gelu-fusion
no-bias-swiglu-fusion no-clone-scatter-output-in-embedding no-contiguous-buffers-in-local-ddp no-delay-grad-reduce
no-gradient-accumulation-fusion no-gradient-reduce-div-fusion no-masked-softmax-fusion no-overlap-grad-reduce
no-overlap-p2p-communication no-persist-layer-norm no-pin-cpu-grads no-pin-cpu-params no-rope-fusion
no-scatter-gather-tensors-in-pipeline no-tp-comm-bulk-dgrad no-tp-comm-bulk-wgrad no-tp-comm-overlap-ag
no-tp-comm-overlap-rs no-tp-comm-split-ag no-tp-comm-split-rs no-use-layer-wise-param-layout optimizer-cuda-graph
outer-dp-sharding-strategy output-logit-dtype overlap-cpu-optimizer-d2h-h2d overlap-p2p-communication-warmup-flush
overlap-param-gather-with-optimizer-step pipeline-model-parallel-comm-backend qk-clip qk-clip-alpha qk-clip-threshold
rerun-mode reuse-grad-buf-for-mxfp8-param-ag sharp-enabled-group standalone-embedding-stage
suggested-communication-unit-size symmetric-ar-type torch-fsdp2-no-reshard-after-forward tp-comm-bootstrap-backend
tp-comm-bulk-dgrad tp-comm-bulk-wgrad tp-comm-overlap tp-comm-overlap-cfg tp-comm-overlap-rs-dgrad tp-comm-split-ag
tp-comm-split-rs use-fused-weighted-squared-relu use-legacy-models use-nccl-ub use-ring-exchange-p2p use-sharp
use-te-activation-func use-torch-optimizer-for-cpu-offload use-transformer-engine-op-fuser wgrad-deferral-limit)";

// The same, whatever follows.
constexpr std::array<std::string_view, 29> kBeginnings{"moe-",
                                                       "mamba-",
                                                       "gdp-",
                                                       "dsa-",
                                                       "no-dsa-",
                                                       "disable-dsa-",
                                                       "linear-",
                                                       "muon-",
                                                       "lion-",
                                                       "mtp-",
                                                       "rl-",
                                                       "no-rl-",
                                                       "grpo-",
                                                       "langrl-",
                                                       "mhc-",
                                                       "fim-",
                                                       "inference-",
                                                       "no-inference-",
                                                       "inprocess-",
                                                       "fault-injector-",
                                                       "tensorboard-",
                                                       "wandb-",
                                                       "otel-",
                                                       "one-logger-",
                                                       "flight-recorder-",
                                                       "no-flight-recorder-",
                                                       "disable-flight-recorder-",
                                                       "pytorch-profiler-",
                                                       "logits-"};

constexpr std::string_view kHybrid = "a model with layers of several kinds, as Mamba's,";
constexpr std::string_view kEncoder = "a model with an encoder and a decoder";
constexpr std::string_view kUnlikeLayers = "a model whose layers have sizes of their own";
constexpr std::string_view kImages = "a model that sees images";
constexpr std::string_view kTaught = "training beside a teacher, which takes memory and time, too,";
// In words that go on "is not counted from arguments alone".
constexpr std::pair<std::string_view, std::string_view> kUncounted[] = {
    {"moe-latent-size", "a model whose experts work on shortened vectors"},
    {"hybrid-layer-pattern", kHybrid},
    {"hybrid-override-pattern", kHybrid},
    {"hybrid-attention-ratio", kHybrid},
    {"is-hybrid-model", kHybrid},
    {"mtp-num-layers", "a model that predicts several tokens at once"},
    {"encoder-num-layers", kEncoder},
    {"decoder-num-layers", kEncoder},
    {"heterogeneous-layers-config-path", kUnlikeLayers},
    {"heterogeneous-layers-config-encoded-json", kUnlikeLayers},
    {"yaml-cfg", "a model that another file describes"},
    {"use-checkpoint-args", "a model whose norms, activation, experts and more its checkpoint says"},
    {"retro-add-retriever", "a model with a retriever"},
    {"bert-no-binary-head", "a BERT"},
    {"experimental-attention-variant", "a model with linear or sparse attention"},
    {"spec", "a model whose layers are made by code that the option names"},
    {"attention-output-gate", "a model with gated attention"},
    {"vision-pretraining", kImages},
    {"img-h", kImages},
    {"img-w", kImages},
    {"patch-dim", kImages},
    {"model-provider", "a model that its program makes by a name"},
    {"language-model-type", kImages},
    {"vision-model-type", kImages},
    {"window-size", "attention within a window, which takes less time than the whole,"},
    {"export-kd-teacher-load", kTaught},
    {"export-kd-cfg", kTaught},
    {"fine-grained-activation-offloading", "training that keeps activations in the host's memory"}};

using Names = std::set<std::string, std::less<>>;

Names names_in(std::initializer_list<const char*> texts) {
  Names names;
  for (const char* const text : texts) {
    std::istringstream words(text);
    for (std::string word; words >> word;) names.insert(word);
  }
  return names;
}

}  // namespace

MegatronRole role_of(std::string_view option) {
  if (std::ranges::count(megatron_plan_options(), option) > 0) return MegatronRole::kNeutral;
  static const Names neutral =
      names_in({kPlan, kTraining, kShape, kFiles, kWatching, kGenerating, kProcesses, kOfOthers});
  static const Names how_it_runs = names_in({kHowItRuns});
  if (how_it_runs.contains(option)) return MegatronRole::kHowItRuns;
  const bool begins =
      std::ranges::any_of(kBeginnings, [option](std::string_view beginning) { return option.starts_with(beginning); });
  return begins || neutral.contains(option) ? MegatronRole::kNeutral : MegatronRole::kUnknown;
}

std::string_view uncounted(std::string_view option) {
  for (const auto& [name, what] : kUncounted) {
    if (name == option) return what;
  }
  return {};
}

}  // namespace trimtab
