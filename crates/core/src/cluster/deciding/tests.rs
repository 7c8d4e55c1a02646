mod announcements;
mod deletion;
mod down;
mod hands_off;
mod history;
mod timer;
mod totality;
mod up;
