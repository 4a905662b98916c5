#pragma once

// Matrix products through cuBLASLt, opened at run time: the toolkit's header gives the types only.

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "base/result.hpp"
#include "cuda_call.hpp"
#include "kernels.hpp"

namespace trimtab::bench::cuda {

class MatrixProducts {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  // For the present device.
  [[nodiscard]] static Result<std::shared_ptr<MatrixProducts>> open();
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  // A launch of the product with the algorithm that the library prefers for it.
  using Launcher = std::function<cublasStatus_t(const void* a, const void* b, void* c, void* workspace, cudaStream_t)>;
  [[nodiscard]] Result<Launcher> prepare(const Gemm& gemm, Dtype dtype);

 private:
  struct Functions {
    decltype(&cublasLtCreate) create = nullptr;
    decltype(&cublasLtDestroy) destroy = nullptr;
    decltype(&cublasLtMatmulDescCreate) operation = nullptr;
    decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
    decltype(&cublasLtMatrixLayoutCreate) layout = nullptr;
    decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
    decltype(&cublasLtMatmulPreferenceCreate) preference = nullptr;
    decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
    decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
    decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
    decltype(&cublasLtMatmul) multiply = nullptr;
  };
  struct Problem;

  explicit MatrixProducts(DynamicLibrary library) : library_(library) {}
  [[nodiscard]] Status load();
  [[nodiscard]] Status describe_operands(const Gemm& gemm, Dtype dtype, Problem& problem) const;
  [[nodiscard]] Status add_layout(cublasLtMatrixLayout_t& layout, Dtype dtype, std::int64_t rows, std::int64_t columns,
                                  std::int64_t batch) const;
  [[nodiscard]] Status choose_algorithm(const Gemm& gemm, Dtype dtype, Problem& problem) const;

  DynamicLibrary library_;
  Functions call_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace trimtab::bench::cuda
