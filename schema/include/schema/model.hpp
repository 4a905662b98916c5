#pragma once

// The model: an ordered list of operators. Document: model.json (schema/json/model.schema.json). Plain values.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"

namespace trimtab {

struct Operator {
  std::string name;
  std::string kind;
  std::int32_t layer = 0;
  std::string cost_key;
  bool cut_before = true;  // a stage may begin here
  std::map<std::string, std::int64_t> shape;
  // Per sample and unsharded, except parameter_bytes, which is per operator.
  Bytes parameter_bytes = 0;
  Bytes activation_bytes = 0;  // kept from forward to backward, output included
  // Of activation_bytes, what every tensor-parallel rank holds whole unless the ranks share sequences (Korthikanti et
  // al. 2022, section 4); none = the output and the input of its first product for the kinds "attention" and "mlp",
  // nothing for others.
  std::optional<Bytes> replicated_activation_bytes;
  Bytes output_bytes = 0;
  // Whether a backward pass reads the output: the operator's own or that of the operator behind it. Where none does, it
  // is kept inside of a layer only as the input of something recomputed.
  bool output_saved = true;
  std::int64_t forward_flops = 0;
  std::vector<std::string> shardings = {"default"};
  // All-reduces of its output that a forward pass on several tensor-parallel ranks ends with, and a backward pass too;
  // none = one for the kinds "attention" and "mlp", else unknown.
  std::optional<std::int32_t> tensor_all_reduces;
  // Keys and values of one sample, which context-parallel ranks exchange; none = twice the output for the kind
  // "attention", nothing for others.
  std::optional<Bytes> key_value_bytes;
};

// Parameters that several operators use: one tensor where they are on one stage, unless each operator has its own.
struct TiedParameters {
  std::vector<std::int32_t> operators;
  Bytes bytes = 0;
  bool copied = false;
};

// What Aceso's published predictor knows of a model beyond its operators. Only the `aceso` cost model reads it.
struct AcesoFacts {
  // Of optimizer_bytes_per_parameter_byte, the part that is the optimizer's copy of the parameters (2 for fp16, 0 for
  // fp32): shown with the weights.
  double main_parameter_bytes_per_parameter_byte = 0;
  Bytes recompute_headroom_bytes = 0;  // added to a stage's memory when what to recompute is derived
  bool resharding = true;              // whether layout changes between neighbours inside a stage are priced
  bool mixed_splits = false;           // whether its search splits the operators of one stage in different ways
  bool operator==(const AcesoFacts&) const = default;
};

// What an embedding or a head holds: states in MiB on one rank, activations in MiB per sample.
struct GalvatronEnds {
  double states_mib = 0;
  double activation_mib = 0;
  bool operator==(const GalvatronEnds&) const = default;
};

// Whose published script: the first four choose the count of microbatches in ways of their own.
enum class GalvatronFamily : std::uint8_t { kBert, kT5, kVit, kSwin, kGpt };

// What Galvatron's published search knows of a model beyond its layers. Only the `galvatron` cost models read it.
struct GalvatronFacts {
  GalvatronFamily family = GalvatronFamily::kGpt;
  double overhead_ms = 0;            // of a step, for every 24 layers
  GalvatronEnds node;                // embedding and head, as the first script has them for one node of 8
  GalvatronEnds whole, first, last;  // the same for one stage alone, the first stage and the last
  double microbatch_relief_mib = 0;  // per sample: what microbatches take off the ends' peak
  bool operator==(const GalvatronFacts&) const = default;
};

// What of neighbouring recomputed operators is recomputed at once, from one kept input: those of one layer, as whatever
// calls torch.utils.checkpoint for a layer does (Megatron-LM's uniform and block methods, DDP, FSDP), or each alone, as
// the reference trainer does.
enum class RecomputeUnit : std::uint8_t { kLayer, kOperator };

// How a program launches an operator's pass: kernel by kernel, as a region of torch.compile, or as a CUDA graph.
enum class LaunchedAs : std::uint8_t { kKernels, kCompiled, kGraph };

struct Model {
  std::string name;
  std::int32_t global_batch = 1;
  std::string dtype = "float32";
  std::vector<std::int32_t> microbatch_total;        // empty = any divisor
  std::vector<std::int32_t> microbatch_per_replica;  // empty = any
  std::vector<Operator> operators;                   // at least one
  std::vector<TiedParameters> tied_parameters;
  // Memory that one byte of parameters brings along.
  double gradient_bytes_per_parameter_byte = 1.0;
  double optimizer_bytes_per_parameter_byte = 2.0;
  RecomputeUnit recompute_unit = RecomputeUnit::kLayer;
  // A stage frees what it has sent to the next one (Megatron-LM's deallocate_pipeline_outputs); else it keeps the
  // output of an operator that is not recomputed until the gradient comes back.
  bool frees_sent_outputs = false;
  LaunchedAs launched_as = LaunchedAs::kKernels;
  std::optional<AcesoFacts> aceso;
  std::optional<GalvatronFacts> galvatron;
};

// Parse and check a document; the error names the JSON path of the offending field, after `source` (a file name).
[[nodiscard]] Result<Model> parse_model(std::string_view json, std::string_view source);
[[nodiscard]] std::string to_json(const Model& model);

}  // namespace trimtab
