#pragma once

// A plan in the words of the framework that runs it, for people who know that and not Trimtab's notation. Pure; any
// thread.

#include <string>
#include <string_view>

#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab {

// "batch_size=16 per rank, gradient_accumulation_steps=2, checkpointing off"; flags of Megatron-LM and torchtitan;
// DeepSpeed's keys. Empty of a target that has no words of its own, of no target, and of a plan that it does not run.
[[nodiscard]] std::string plan_words(const Plan& plan, const Model& model, std::string_view target);

// The plan's document with these words in it, so that whoever shows it later need know neither model nor target. They
// mean nothing: readers of plans pass over them, and the hash is the same.
[[nodiscard]] std::string to_json(const Plan& plan, const std::string& words);
// What a plan's document says of them; empty: nothing.
[[nodiscard]] std::string words_in(std::string_view plan_json);

}  // namespace trimtab
