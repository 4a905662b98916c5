#pragma once

// Seconds of one layer, and of what stands before the first and behind the last, for one microbatch on one device.
// Pure.

#include <array>

#include "collectives.hpp"
#include "framework.hpp"
#include "kernels.hpp"

namespace trimtab::estimates {

// Of a forward or a backward pass.
struct PassTime {
  double computed = 0;
  double tensor = 0;   // communication of the tensor-parallel group that nothing hides
  double context = 0;  // of the context-parallel group
  [[nodiscard]] double sum() const { return computed + tensor + context; }
  PassTime& operator+=(const PassTime& other) {
    computed += other.computed;
    tensor += other.tensor;
    context += other.context;
    return *this;
  }
};

[[nodiscard]] inline PassTime operator*(const PassTime& pass, double times) {
  return {pass.computed * times, pass.tensor * times, pass.context * times};
}

struct LayerTime {
  PassTime forward;
  PassTime backward;    // without what is computed again
  PassTime recomputed;  // of the layer's forward pass, again
};

class LayerTimes {
 public:
  LayerTimes(const Machine& machine, const ModelShape& shape, const UniformPlan& plan, const Constants& constants);

  [[nodiscard]] LayerTime layer() const;
  [[nodiscard]] LayerTime head() const;  // last norm, head and loss
  [[nodiscard]] LayerTime embedding() const;

 private:
  struct Parts {
    double products = 0, attention = 0, moved = 0;
    double activations = 0;  // of moved: norms and the mlp's activation function
    double tensor = 0, context = 0;
  };
  struct Matrix {
    double in, out;  // on one rank of the tensor-parallel group
    bool column;     // column-parallel: its output is divided, else its input
  };
  [[nodiscard]] std::array<Matrix, 4> matrices() const;
  [[nodiscard]] Parts parts(bool backward) const;
  [[nodiscard]] double products(bool backward) const;
  [[nodiscard]] double attention(bool backward) const;
  [[nodiscard]] double tensor_communication(bool backward, double products) const;
  [[nodiscard]] double exposed_gathers(const Matrix& matrix, bool backward, double gather, double scatter) const;
  [[nodiscard]] double context_communication(bool backward, double attention) const;
  [[nodiscard]] bool overlaps_own_share() const {
    return traits_.overlaps_own_share && plan_.overlaps_tensor && plan_.sequence_parallel;
  }
  [[nodiscard]] double parted_product(double in, double out) const;
  // What kernels that cast to float8 read and write beside a matrix's products.
  [[nodiscard]] double cast_bytes(const Matrix& matrix, bool backward) const;
  // Forward: one product. Backward: one for the input's gradient and one for the matrix's.
  [[nodiscard]] double linear(double in, double out, bool backward, Precision precision) const;

  const ModelShape& shape_;
  const UniformPlan& plan_;
  const Constants& constants_;
  FrameworkTraits traits_;
  Kernels kernels_;
  Collectives collectives_;
  double tokens_;  // of a microbatch, on each rank of a tensor-parallel group
};

}  // namespace trimtab::estimates
