#pragma once

// What a device can compute at most, by its maker's data sheet: dense, without sparsity.

#include <optional>
#include <string>
#include <string_view>

namespace trimtab::coordinator {

// Operations a second in that type of number ("float32" is the tensor cores' TF32 where there is one); nothing where
// the device or the type is not in the table.
[[nodiscard]] std::optional<double> peak_flops(std::string_view device_name, std::string_view dtype);

}  // namespace trimtab::coordinator
