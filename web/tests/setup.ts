import english from "../../src/regard/learn/languages/en.json";
import { startLanguage } from "../src/learner/language";

// What is tested says English sentences unless a test chooses another language.
startLanguage({ en: english }, "en");
