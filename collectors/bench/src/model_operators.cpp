#include "model_operators.hpp"

#include <algorithm>

#include "requests.hpp"

namespace trimtab::bench {

namespace {

Result<ModelOperator> read_operator(const Json& json) {
  ModelOperator op;
  TRIMTAB_TRY(op.cost_key, text(json, "cost_key"));
  TRIMTAB_TRY(op.kind, text(json, "kind"));
  const Json& shape = json.at("shape");
  TRIMTAB_TRY(op.sequence, positive_or(shape, "sequence", 1));
  TRIMTAB_TRY(op.hidden, positive_or(shape, "hidden", 1));
  TRIMTAB_TRY(op.heads, positive_or(shape, "heads", 1));
  TRIMTAB_TRY(op.vocabulary, positive_or(shape, "vocabulary", 1));
  op.parameter_bytes = json.at("parameter_bytes").integer().value_or(0);
  op.forward_flops = json.at("forward_flops").integer().value_or(0);
  return op;
}

Bytes output_bytes(const Kernel& kernel) {
  const Bytes element = element_bytes(kernel.dtype);
  if (const auto* gemm = std::get_if<Gemm>(&kernel.work)) return gemm->batch * gemm->m * gemm->n * element;
  if (const auto* rows = std::get_if<RowKernel>(&kernel.work)) return rows->rows * rows->columns * element;
  if (const auto* pass = std::get_if<Elementwise>(&kernel.work)) return pass->elements * pass->writes * element;
  if (const auto* lookup = std::get_if<Lookup>(&kernel.work)) return lookup->tokens * lookup->hidden * element;
  return 0;
}

bool is_softmax(const Kernel& kernel) {
  const auto* const rows = std::get_if<RowKernel>(&kernel.work);
  return rows != nullptr && rows->function == RowFunction::kSoftmax;
}

// Makes the forward chain; the backward is its mirror.
class Builder {
 public:
  explicit Builder(Dtype dtype) : dtype_(dtype) {}

  Builder& gemm(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1, bool transposed_b = true) {
    return add(Gemm{m, n, k, batch, false, transposed_b});
  }
  Builder& layernorm(std::int64_t rows, std::int64_t columns) {
    return add(RowKernel{RowFunction::kLayerNorm, rows, columns, false});
  }
  Builder& softmax(std::int64_t rows, std::int64_t columns) {
    return add(RowKernel{RowFunction::kSoftmax, rows, columns, false});
  }
  Builder& elementwise(std::int64_t elements, std::int32_t reads) { return add(Elementwise{elements, reads, 1}); }
  Builder& lookup(std::int64_t tokens, std::int64_t hidden, std::int64_t vocabulary) {
    return add(Lookup{tokens, hidden, vocabulary, false});
  }

  // `reduced` elements are summed over the `tp` ranks at the end of each pass.
  OperatorKernels finish(std::int64_t reduced, std::int64_t tp) {
    OperatorKernels kernels;
    kernels.forward = forward_;
    for (auto kernel = forward_.rbegin(); kernel != forward_.rend(); ++kernel) mirror(*kernel, kernels.backward);
    sizes(kernels);
    if (tp > 1) {
      const Kernel sum{Collective{"all_reduce", reduced * element_bytes(dtype_), static_cast<std::int32_t>(tp)},
                       dtype_};
      kernels.forward.push_back(sum);
      kernels.backward.push_back(sum);
    }
    return kernels;
  }

 private:
  Builder& add(Work work) {
    forward_.push_back({std::move(work), dtype_});
    return *this;
  }

  void mirror(const Kernel& kernel, Chain& backward) const {
    if (const auto* gemm = std::get_if<Gemm>(&kernel.work)) {
      // dA = dC Bᵀ, dB = Aᵀ dC.
      backward.push_back({Gemm{gemm->m, gemm->k, gemm->n, gemm->batch, false, !gemm->transposed_b}, dtype_});
      backward.push_back({Gemm{gemm->k, gemm->n, gemm->m, gemm->batch, true, false}, dtype_});
      return;
    }
    Kernel reverse = kernel;
    if (auto* rows = std::get_if<RowKernel>(&reverse.work)) rows->backward = true;
    if (auto* lookup = std::get_if<Lookup>(&reverse.work)) lookup->backward = true;
    if (auto* pass = std::get_if<Elementwise>(&reverse.work)) pass->reads = 2;
    backward.push_back(reverse);
  }

  // A softmax is computed in place of its input; everything else that forward makes is kept.
  void sizes(OperatorKernels& kernels) const {
    for (std::size_t i = 0; i < forward_.size(); ++i) {
      const Bytes bytes = output_bytes(forward_[i]);
      const bool overwritten = i + 1 < forward_.size() && is_softmax(forward_[i + 1]);
      if (!overwritten) kernels.stored_bytes += bytes;
      kernels.working_bytes = std::max(kernels.working_bytes, bytes);
    }
  }

  Dtype dtype_;
  Chain forward_;
};

Status divides(std::int64_t tp, std::int64_t whole, const std::string& what) {
  if (whole % tp == 0) return {};
  return bad_input("tp must divide " + what + " (" + std::to_string(whole) + "), found " + std::to_string(tp));
}

bool of_class(const Kernel& kernel, std::string_view kernel_class) {
  if (const auto* rows = std::get_if<RowKernel>(&kernel.work)) {
    return kernel_class == (rows->function == RowFunction::kLayerNorm ? "normalization" : "softmax");
  }
  return (kernel_class == "gemm" && std::holds_alternative<Gemm>(kernel.work)) ||
         (kernel_class == "elementwise" && std::holds_alternative<Elementwise>(kernel.work)) ||
         (kernel_class == "lookup" && std::holds_alternative<Lookup>(kernel.work));
}

}  // namespace

Result<ModelOperators> parse_model_operators(std::string_view text, std::string_view source) {
  TRIMTAB_TRY(const Json document, Json::parse(text, source));
  const std::string* const schema = document.at("schema").text();
  if (schema == nullptr || *schema != "trimtab.model/1") {
    return bad_input(std::string(source) + ": schema must be trimtab.model/1");
  }
  const Json::Array* const operators = document.at("operators").array();
  if (operators == nullptr || operators->empty()) {
    return bad_input(std::string(source) + ": operators must be a list of at least one");
  }
  ModelOperators model;
  TRIMTAB_TRY(model.dtype, text_or(document, "dtype", "float32"));
  for (std::size_t i = 0; i < operators->size(); ++i) {
    auto op = read_operator((*operators)[i]);
    if (!op.ok()) return wrap(std::string(source) + ": operators[" + std::to_string(i) + "]", op.error());
    model.by_cost_key.emplace(op->cost_key, *op);
  }
  return model;
}

Result<OperatorKernels> operator_kernels(const ModelOperator& op, Dtype dtype, std::int64_t samples, std::int64_t tp) {
  const std::int64_t tokens = samples * op.sequence;
  const std::int64_t hidden = op.hidden;
  Builder chain(dtype);
  if (op.kind == "attention") {
    TRIMTAB_TRY_STATUS(divides(op.heads, hidden, "hidden"));
    TRIMTAB_TRY_STATUS(divides(tp, op.heads, "heads"));
    const std::int64_t width = hidden / op.heads;
    const std::int64_t matrices = samples * op.heads / tp;
    chain.layernorm(tokens, hidden)
        .gemm(tokens, 3 * hidden / tp, hidden)
        .gemm(op.sequence, op.sequence, width, matrices)
        .softmax(matrices * op.sequence, op.sequence)
        .gemm(op.sequence, width, op.sequence, matrices, false)
        .gemm(tokens, hidden, hidden / tp)
        .elementwise(tokens * hidden, 2);
    return chain.finish(tokens * hidden, tp);
  }
  if (op.kind == "feedforward") {
    TRIMTAB_TRY_STATUS(divides(tp, 4 * hidden, "the inner width"));
    const std::int64_t inner = 4 * hidden / tp;
    chain.layernorm(tokens, hidden)
        .gemm(tokens, inner, hidden)
        .elementwise(tokens * inner, 1)
        .gemm(tokens, hidden, inner)
        .elementwise(tokens * hidden, 2);
    return chain.finish(tokens * hidden, tp);
  }
  if (op.kind == "head") {
    TRIMTAB_TRY_STATUS(divides(tp, op.vocabulary, "vocabulary"));
    chain.layernorm(tokens, hidden).gemm(tokens, op.vocabulary / tp, hidden).softmax(tokens, op.vocabulary / tp);
    return chain.finish(tokens * hidden, tp);
  }
  if (op.kind == "embedding") {
    TRIMTAB_TRY_STATUS(divides(tp, op.vocabulary, "vocabulary"));
    chain.lookup(tokens, hidden, op.vocabulary / tp).elementwise(tokens * hidden, 2);
    return chain.finish(tokens * hidden, tp);
  }
  if (op.kind == "layernorm") {
    return chain.layernorm(tokens, hidden).finish(tokens * hidden, 1);
  }
  return bad_input("no kernels are known for operators of kind " + json_string(op.kind) +
                   "; known are attention, embedding, feedforward, head and layernorm");
}

Result<Chain> kernels_of_class(const Chain& forward, std::string_view kernel_class) {
  if (kernel_class == "attention") {
    for (std::size_t i = 1; i + 1 < forward.size(); ++i) {
      const auto* const before = std::get_if<Gemm>(&forward[i - 1].work);
      const auto* const after = std::get_if<Gemm>(&forward[i + 1].work);
      if (is_softmax(forward[i]) && before != nullptr && after != nullptr) {
        return Chain{forward[i - 1], forward[i], forward[i + 1]};
      }
    }
  }
  const Kernel* largest = nullptr;
  for (const Kernel& kernel : forward) {
    if (!of_class(kernel, kernel_class)) continue;
    const auto work = [](const Kernel& one) {
      const auto* const gemm = std::get_if<Gemm>(&one.work);
      return gemm == nullptr ? touched_bytes(one) : gemm->batch * gemm->m * gemm->n * gemm->k;
    };
    if (largest == nullptr || work(kernel) > work(*largest)) largest = &kernel;
  }
  if (largest == nullptr) return bad_input("the operator has no kernels of class " + json_string(kernel_class));
  return Chain{*largest};
}

}  // namespace trimtab::bench
