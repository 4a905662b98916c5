#include "schema/megatron_model.hpp"

#include <algorithm>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "documents/json_document.hpp"
#include "schema/gpt_model.hpp"
#include "targets/megatron/expert_layers.hpp"
#include "targets/megatron/megatron_arguments.hpp"
#include "targets/megatron/megatron_options.hpp"

namespace trimtab {

namespace {

// --name with its values; a flag has none.
using Options = std::map<std::string, std::vector<std::string>, std::less<>>;

constexpr std::string_view kRead[] = {"num-layers",
                                      "hidden-size",
                                      "num-attention-heads",
                                      "seq-length",
                                      "global-batch-size",
                                      "vocab-size",
                                      "tokenizer-type",
                                      "merge-file",
                                      "max-position-embeddings",
                                      "ffn-hidden-size",
                                      "kv-channels",
                                      "num-query-groups",
                                      "make-vocab-size-divisible-by",
                                      "tensor-model-parallel-size",
                                      "encoder-seq-length",
                                      "position-embedding-type",
                                      "normalization",
                                      "swiglu",
                                      "disable-bias-linear",
                                      "add-qkv-bias",
                                      "qk-layernorm",
                                      "group-query-attention",
                                      "untie-embeddings-and-output-weights",
                                      "use-rotary-position-embeddings",
                                      "no-position-embedding",
                                      "fp16",
                                      "bf16",
                                      "accumulate-allreduce-grads-in-fp32",
                                      "quick-geglu",
                                      "hidden-dropout",
                                      "attention-dropout",
                                      "attention-backend",
                                      "transformer-impl",
                                      "use-flash-attn",
                                      "grad-reduce-in-bf16",
                                      "optimizer",
                                      "sgd-momentum",
                                      "use-precision-aware-optimizer",
                                      "main-grads-dtype",
                                      "main-params-dtype",
                                      "exp-avg-dtype",
                                      "exp-avg-sq-dtype",
                                      "fp8-format",
                                      "fp8-recipe",
                                      "fp4-format",
                                      "fp4-recipe",
                                      "padded-vocab-size",
                                      "num-experts",
                                      "moe-router-topk",
                                      "moe-ffn-hidden-size",
                                      "moe-shared-expert-intermediate-size",
                                      "moe-shared-expert-gate",
                                      "moe-router-enable-expert-bias",
                                      "moe-layer-freq",
                                      "multi-latent-attention",
                                      "q-lora-rank",
                                      "kv-lora-rank",
                                      "qk-head-dim",
                                      "qk-pos-emb-head-dim",
                                      "v-head-dim",
                                      "softmax-type",
                                      "qk-l2-norm",
                                      "export-qk-l2-norm",
                                      "muon-scalar-optimizer"};
struct Sorted {
  Options read;
  std::vector<std::string> how_it_runs;
};

// As text that can be printed, without quotes.
std::string shown(const std::string& name) {
  const std::string quoted = quoted_text(name);
  const std::size_t end = quoted.rfind('"');
  return quoted.substr(1, end - 1) + quoted.substr(end + 1);
}

std::string unknown_text(const std::vector<std::string>& unknown) {
  constexpr std::size_t kMostShown = 20;
  std::string names;
  std::string flags;
  for (std::size_t i = 0; i < std::min(unknown.size(), kMostShown); ++i) {
    names += (i == 0 ? "--" : ", --") + shown(unknown[i]);
    flags += " --neutral " + shown(unknown[i]);
  }
  if (unknown.size() > kMostShown) names += " and " + std::to_string(unknown.size() - kMostShown) + " more";
  return names +
         ": not known to leave the model, its memory and its time as they are; where that is so, say it in front of "
         "--:" +
         flags;
}

// "--my-flag" and "my-flag" are one name.
bool says_neutral(const std::vector<std::string>& neutral, const std::string& name) {
  return std::ranges::any_of(neutral, [&](const std::string& one) { return one == name || one == "--" + name; });
}

Result<Sorted> sort_arguments(const std::vector<std::string>& words, const std::vector<std::string>& neutral) {
  Sorted sorted;
  std::vector<std::string> unknown;
  if (const auto program = program_of_no_gpt(words)) {
    return bad_input(
        *program +
        ": trains no decoder-only GPT, which is what is counted from arguments; if this one does, give its "
        "options without the program behind --");
  }
  for (MegatronArgument& argument : megatron_arguments(words_of_program(words))) {
    const bool passed_over = says_neutral(neutral, argument.name);
    if (const std::string_view what = uncounted(argument.name); !what.empty() && !passed_over) {
      return bad_input("--" + argument.name + ": " + std::string(what) +
                       " is not counted from arguments alone; write its model.json from the PyTorch module (trimtab "
                       "model extract --module), or say in front of --, where it changes nothing: --neutral " +
                       argument.name);
    }
    if (std::ranges::count(kRead, argument.name) > 0) {
      sorted.read[argument.name] = std::move(argument.values);
    } else if (role_of(argument.name) == MegatronRole::kHowItRuns) {
      sorted.how_it_runs.push_back("--" + argument.name);
    } else if (role_of(argument.name) == MegatronRole::kUnknown && !passed_over) {
      unknown.push_back(argument.name);
    }
  }
  if (!unknown.empty()) return bad_input(unknown_text(unknown));
  return sorted;
}

Result<std::int64_t> number(const Options& options, std::string_view name, std::optional<std::int64_t> fallback) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const auto found = options.find(name);
  const std::string option = "--" + std::string(name);
  if (found == options.end()) {
    if (fallback) return *fallback;
    return bad_input(option +
                     ": expected a positive integer, found nothing: the model cannot be counted without it; give " +
                     option + " N behind --");
  }
  const std::string text = found->second.size() == 1 ? found->second.front() : "";
  const auto value = parse_number<std::int64_t>(text);
  if (value && *value > 0 && *value < kMost) return *value;
  const bool variable = text.find('$') != std::string::npos;
  return bad_input(option + ": expected one positive integer, found " + quoted_text(text) +
                   (variable ? ", whose value is not said here; give " + option + " N behind --" : ""));
}

// Of the tokenizer where the arguments do not say it.
Result<std::int64_t> vocabulary_size(const Options& options) {
  constexpr std::int64_t kGpt2 = 50257;
  if (options.contains("vocab-size")) return number(options, "vocab-size", {});
  const auto tokenizer = options.find("tokenizer-type");
  // pretrain_gpt.py's own; it alone needs a file of merges.
  const bool default_one = tokenizer == options.end() && options.contains("merge-file");
  if (default_one ||
      (tokenizer != options.end() && tokenizer->second == std::vector<std::string>{"GPT2BPETokenizer"})) {
    return kGpt2;
  }
  return bad_input(
      "--vocab-size: expected a positive integer, found nothing, and the tokenizer's own files say it (but for "
      "GPT2BPETokenizer, which has 50257 words); give --vocab-size N behind --");
}

Result<std::string> word(const Options& options, std::string_view name, std::string_view fallback,
                         const std::vector<std::string_view>& choices) {
  const auto found = options.find(name);
  if (found == options.end()) return std::string(fallback);
  const std::string text = found->second.empty() ? "" : found->second.front();
  if (std::ranges::count(choices, text) > 0) return text;
  return bad_input("--" + std::string(name) + ": expected one of " + joined(choices) + ", found " + quoted_text(text));
}

// Below 1, as dropout and momentum are.
Result<double> share(const Options& options, std::string_view name, double fallback) {
  const auto found = options.find(name);
  if (found == options.end()) return fallback;
  const std::string text = found->second.size() == 1 ? found->second.front() : "";
  const auto value = parse_number<double>(text);
  if (value && *value >= 0 && *value < 1) return *value;
  return bad_input("--" + std::string(name) + ": expected one number of at least 0 and below 1, found " +
                   quoted_text(text));
}

Status read_shape(const Options& options, GptSizes& sizes) {
  TRIMTAB_TRY(sizes.layers, number(options, "num-layers", {}));
  TRIMTAB_TRY(sizes.hidden, number(options, "hidden-size", {}));
  TRIMTAB_TRY(sizes.heads, number(options, "num-attention-heads", {}));
  TRIMTAB_TRY(const std::int64_t encoder, number(options, "encoder-seq-length", 0));
  TRIMTAB_TRY(sizes.sequence, number(options, "seq-length", encoder > 0 ? std::optional(encoder) : std::nullopt));
  TRIMTAB_TRY(sizes.batch, number(options, "global-batch-size", {}));
  if (sizes.layers > 100'000) return bad_input("--num-layers: expected at most 100000, found more");
  sizes.gated = options.contains("swiglu") || options.contains("quick-geglu");
  // A gated unit has two products where another has one: 64 is Megatron-LM's own rounding (swiglu alone).
  const bool two_thirds = options.contains("swiglu");
  const auto shrunk = static_cast<std::int64_t>(static_cast<double>(4 * sizes.hidden * 2) / 3 / 64) * 64;
  TRIMTAB_TRY(sizes.ffn, number(options, "ffn-hidden-size", two_thirds ? shrunk : 4 * sizes.hidden));
  if (sizes.ffn < 1) {
    return bad_input("--ffn-hidden-size: needed with --swiglu and --hidden-size " + std::to_string(sizes.hidden) +
                     ", of which Megatron-LM's own rounding leaves nothing");
  }
  if (!options.contains("kv-channels") && sizes.hidden % sizes.heads != 0) {
    return bad_input("--num-attention-heads: must divide --hidden-size " + std::to_string(sizes.hidden) + ", found " +
                     std::to_string(sizes.heads) + "; or give --kv-channels");
  }
  TRIMTAB_TRY(sizes.channels, number(options, "kv-channels", std::max<std::int64_t>(sizes.hidden / sizes.heads, 1)));
  sizes.groups = sizes.heads;
  if (!options.contains("group-query-attention")) return {};
  TRIMTAB_TRY(sizes.groups, number(options, "num-query-groups", 1));
  if (sizes.heads % sizes.groups == 0) return {};
  return bad_input("--num-query-groups: must divide --num-attention-heads " + std::to_string(sizes.heads) + ", found " +
                   std::to_string(sizes.groups));
}

// Defaults are arguments.py's.
Status read_latent(const Options& options, GptSizes& sizes) {
  if (!options.contains("multi-latent-attention")) return {};
  GptLatent latent;
  TRIMTAB_TRY(latent.queries, number(options, "q-lora-rank", 0));
  TRIMTAB_TRY(latent.key_values, number(options, "kv-lora-rank", 32));
  TRIMTAB_TRY(latent.plain, number(options, "qk-head-dim", 128));
  TRIMTAB_TRY(latent.rotated, number(options, "qk-pos-emb-head-dim", 64));
  TRIMTAB_TRY(latent.values, number(options, "v-head-dim", 128));
  latent.norms = options.contains("qk-layernorm");
  sizes.latent = latent;
  return {};
}

Status read_experts(const Options& options, GptSizes& sizes) {
  if (!options.contains("num-experts")) return {};
  GptExperts experts;
  TRIMTAB_TRY(experts.count, number(options, "num-experts", {}));
  TRIMTAB_TRY(experts.active, number(options, "moe-router-topk", 2));
  TRIMTAB_TRY(experts.ffn, number(options, "moe-ffn-hidden-size", sizes.ffn));
  TRIMTAB_TRY(experts.shared_ffn, number(options, "moe-shared-expert-intermediate-size", 0));
  if (experts.active > experts.count) {
    return bad_input("--moe-router-topk: expected at most --num-experts " + std::to_string(experts.count) + ", found " +
                     std::to_string(experts.active));
  }
  // It is one mlp, as wide as those of all shared experts together.
  if (experts.shared_ffn > 0) experts.shared = std::max<std::int64_t>(experts.shared_ffn / experts.ffn, 1);
  experts.shared_gate = experts.shared_ffn > 0 && options.contains("moe-shared-expert-gate");
  experts.bias = experts.router_bias = sizes.bias;
  experts.selection_bias = options.contains("moe-router-enable-expert-bias");
  const auto frequency = options.find("moe-layer-freq");
  const std::string said = frequency == options.end() ? "1" : joined(frequency->second, " ");
  TRIMTAB_TRY(experts.in_layer, layers_with_experts(said, sizes.layers));
  sizes.experts = std::move(experts);
  return {};
}

Status read_ends(const Options& options, GptSizes& sizes) {
  TRIMTAB_TRY(const std::int64_t words,
              options.contains("padded-vocab-size") ? Result<std::int64_t>(1) : vocabulary_size(options));
  TRIMTAB_TRY(const std::int64_t multiple, number(options, "make-vocab-size-divisible-by", 128));
  TRIMTAB_TRY(const std::int64_t ranks, number(options, "tensor-model-parallel-size", 1));
  const std::int64_t unit = multiple * ranks;
  TRIMTAB_TRY(sizes.vocabulary, number(options, "padded-vocab-size", (words + unit - 1) / unit * unit));
  sizes.tied = !options.contains("untie-embeddings-and-output-weights");
  TRIMTAB_TRY(const std::string position, word(options, "position-embedding-type", "learned_absolute",
                                               {"learned_absolute", "rope", "yarn", "mrope", "none"}));
  const bool learnt = position == "learned_absolute" && !options.contains("use-rotary-position-embeddings") &&
                      !options.contains("no-position-embedding");
  if (!learnt) return {};
  TRIMTAB_TRY(sizes.positions, number(options, "max-position-embeddings", {}));
  return {};
}

// "fp8-hybrid-delayed": what products are computed in, and how it is scaled; empty: in the model's own type.
Result<std::string> recipe_of(const Options& options) {
  if (options.contains("fp8-format")) {
    TRIMTAB_TRY(const std::string format, word(options, "fp8-format", "", {"e4m3", "hybrid"}));
    TRIMTAB_TRY(const std::string recipe,
                word(options, "fp8-recipe", "delayed", {"tensorwise", "delayed", "mxfp8", "blockwise", "custom"}));
    return "fp8-" + format + "-" + recipe;
  }
  if (!options.contains("fp4-format")) return std::string();
  TRIMTAB_TRY(const std::string format, word(options, "fp4-format", "", {"e2m1"}));
  TRIMTAB_TRY(const std::string recipe, word(options, "fp4-recipe", "nvfp4", {"nvfp4", "custom"}));
  return "fp4-" + format + "-" + recipe;
}

Status read_numerics(const Options& options, GptSizes& sizes) {
  TRIMTAB_TRY(const std::string norm, word(options, "normalization", "LayerNorm", {"LayerNorm", "RMSNorm"}));
  sizes.rms = norm == "RMSNorm";
  sizes.bias = !options.contains("disable-bias-linear");
  sizes.qkv_bias = sizes.bias || options.contains("add-qkv-bias");
  const bool has_no_weights = options.contains("qk-l2-norm") || options.contains("export-qk-l2-norm");
  sizes.query_norm = options.contains("qk-layernorm") && !has_no_weights;
  TRIMTAB_TRY(const std::string softmax,
              word(options, "softmax-type", "vanilla", {"vanilla", "off-by-one", "learnable"}));
  sizes.sinks = softmax == "learnable";
  TRIMTAB_TRY_STATUS(read_latent(options, sizes));
  TRIMTAB_TRY_STATUS(read_experts(options, sizes));
  const bool bf16 = options.contains("bf16");
  if (bf16 && options.contains("fp16")) return bad_input("--fp16 and --bf16: expected one of them, found both");
  sizes.half = bf16 || options.contains("fp16");
  TRIMTAB_TRY(sizes.recipe, recipe_of(options));
  if (sizes.half) sizes.dtype = bf16 ? "bfloat16" : "float16";
  return {};
}

// It orthogonalizes the momentum of a layer's matrices: emerging_optimizers.py.
bool is_muon(std::string_view optimizer) {
  return optimizer == "muon" || optimizer == "adaptive_muon";
}

// Bytes of one element; only the precision-aware optimizer has others than 4.
Result<double> element_bytes(const Options& options, std::string_view name,
                             const std::vector<std::string_view>& choices) {
  TRIMTAB_TRY(const std::string dtype, word(options, name, "fp32", choices));
  if (dtype == "fp32") return 4.0;
  if (!options.contains("use-precision-aware-optimizer")) {
    return bad_input("--" + std::string(name) + " " + dtype + ": needs --use-precision-aware-optimizer");
  }
  return dtype == "fp8" ? 1.0 : 2.0;
}

// What the optimizer keeps of each parameter, and the gradients' buffer, as Megatron-LM's arguments.py settles them:
// bf16 accumulates in float32 unless the reduction or the main gradients are bf16, fp16 in float16 unless it is told
// to.
Status read_states(const Options& options, GptSizes& sizes) {
  TRIMTAB_TRY(const std::string optimizer,
              word(options, "optimizer", "adam", {"adam", "sgd", "lion", "muon", "adaptive_muon"}));
  TRIMTAB_TRY(const std::string scalar, word(options, "muon-scalar-optimizer", "adam", {"adam", "lion"}));
  TRIMTAB_TRY(const double momentum, share(options, "sgd-momentum", 0.9));
  TRIMTAB_TRY(const double gradient, element_bytes(options, "main-grads-dtype", {"fp32", "bf16"}));
  TRIMTAB_TRY(const double main, element_bytes(options, "main-params-dtype", {"fp32", "fp16"}));
  TRIMTAB_TRY(const double average, element_bytes(options, "exp-avg-dtype", {"fp32", "fp16", "bf16", "fp8"}));
  TRIMTAB_TRY(const double squares, element_bytes(options, "exp-avg-sq-dtype", {"fp32", "fp16", "bf16", "fp8"}));
  const double width = sizes.half ? 2 : 4;
  const auto states = [&](const std::string& of) {
    const double one = of == "sgd" && momentum == 0 ? 0 : 4;
    const double moments = of == "adam" ? average + squares : of == "adaptive_muon" ? 8 : one;
    return ((sizes.half ? main : 0) + moments) / width;
  };
  sizes.optimizer = states(optimizer);
  if (is_muon(optimizer)) sizes.optimizer_of_ends = states(scalar);
  const bool whole = options.contains("accumulate-allreduce-grads-in-fp32");
  const bool in_half = sizes.dtype == "bfloat16" ? options.contains("grad-reduce-in-bf16") || (gradient < 4 && !whole)
                                                 : sizes.half && !whole;
  sizes.gradient = (in_half ? 2 : 4) / width;
  return {};
}

// Fused attention keeps no scores, so nothing of its own dropout either.
Status read_kept(const Options& options, GptSizes& sizes) {
  TRIMTAB_TRY(const double hidden, share(options, "hidden-dropout", 0.1));
  TRIMTAB_TRY(const double attention, share(options, "attention-dropout", 0.1));
  TRIMTAB_TRY(const std::string backend,
              word(options, "attention-backend", "auto", {"auto", "flash", "fused", "unfused", "local"}));
  TRIMTAB_TRY(const std::string layers, word(options, "transformer-impl", "transformer_engine",
                                             {"transformer_engine", "local", "inference_optimized"}));
  sizes.hidden_masks = hidden > 0;
  sizes.score_masks = attention > 0;
  const bool local = layers == "local" && !options.contains("use-flash-attn");
  sizes.keeps_scores = backend == "unfused" || backend == "local" || (backend == "auto" && local);
  return {};
}

}  // namespace

Result<MegatronSizes> sizes_from_megatron(const std::vector<std::string>& arguments,
                                          const std::vector<std::string>& neutral) {
  TRIMTAB_TRY(Sorted sorted, sort_arguments(arguments, neutral));
  MegatronSizes found;
  GptSizes& sizes = found.sizes;
  TRIMTAB_TRY_STATUS(read_shape(sorted.read, sizes));
  TRIMTAB_TRY_STATUS(read_ends(sorted.read, sizes));
  TRIMTAB_TRY_STATUS(read_numerics(sorted.read, sizes));
  TRIMTAB_TRY_STATUS(read_states(sorted.read, sizes));
  TRIMTAB_TRY_STATUS(read_kept(sorted.read, sizes));
  found.how_it_runs = std::move(sorted.how_it_runs);
  if (sizes.optimizer_of_ends) found.how_it_runs.emplace_back("--optimizer");  // an update has products of matrices
  return found;
}

Result<MegatronModel> model_from_megatron(const std::vector<std::string>& arguments, const std::string& name,
                                          const std::vector<std::string>& neutral) {
  TRIMTAB_TRY(MegatronSizes found, sizes_from_megatron(arguments, neutral));
  TRIMTAB_TRY(Model model, gpt_model(found.sizes, name));
  return MegatronModel{std::move(model), std::move(found.how_it_runs)};
}

}  // namespace trimtab
